from fedbench.base.rng import generator, torch_seed


def test_equal_keys_give_equal_streams() -> None:
    assert (generator(8, "x", 1, 2).random(5) == generator(8, "x", 1, 2).random(5)).all()


def test_every_part_of_the_key_matters() -> None:
    keys = [(8, "x", 1, 2), (9, "x", 1, 2), (8, "y", 1, 2), (8, "x", 2, 2), (8, "x", 1, 1)]
    assert len({float(generator(*key).random()) for key in keys}) == len(keys)
    assert len({torch_seed(*key) for key in keys}) == len(keys)


def test_torch_seeds_fit_torch() -> None:
    assert all(0 <= torch_seed(seed, "init") < 2**63 for seed in range(50))
