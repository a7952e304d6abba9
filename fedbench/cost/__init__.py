"""How fast this machine is: cases, each measured in processes of its own, and what follows from them."""
