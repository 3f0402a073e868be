"""Run by ctest with CLEAVE_LIBRARY pointing at libcleave.so; needs numpy only for the tests of arrays."""
import importlib.util
import os
import pathlib
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import cleave  # noqa: E402

HAS_NUMPY = importlib.util.find_spec("numpy") is not None


def tiny(out, data):
    return {"model": {"layers": 2, "hidden": 16, "heads": 2}, "data": {"path": data},
            "train": {"steps": 5, "batch": 2, "sequence": 16, "out": out}}


class Cleave(unittest.TestCase):
    def setUp(self):
        self._directory = tempfile.TemporaryDirectory()
        self.addCleanup(self._directory.cleanup)
        self.data = self.path("data.txt")
        pathlib.Path(self.data).write_text("the quick brown fox jumps over the lazy dog\n" * 50)

    def path(self, name):
        return os.path.join(self._directory.name, name)

    def test_trains_with_a_callback_that_hears_every_step(self):
        heard = []
        report = cleave.train(tiny(self.path("out"), self.data), on_step=heard.append)
        self.assertEqual([line["step"] for line in heard], [1, 2, 3, 4, 5])
        self.assertEqual([line["loss"] for line in heard], report["loss"])

    def test_stops_when_the_callback_says_so_and_goes_on_where_it_stopped(self):
        config = tiny(self.path("out"), self.data)
        config["train"]["steps"] = 100000
        stopped = cleave.train(config, on_step=lambda line: line["step"] < 2)
        self.assertTrue(stopped["stopped"])
        config["train"]["steps"] = stopped["steps"] + 1
        heard = []
        resumed = cleave.train(config, resume=True, on_step=heard.append)
        self.assertEqual(resumed["steps"], stopped["steps"] + 1)
        self.assertEqual(heard[-1]["step"], resumed["steps"])

    def test_raises_what_the_callback_raises_and_can_train_again(self):
        def fail(line):
            raise RuntimeError(f"heard step {line['step']}")
        with self.assertRaisesRegex(RuntimeError, "heard step 1"):
            cleave.train(tiny(self.path("out"), self.data), on_step=fail)
        again = cleave.train(tiny(self.path("out"), self.data), resume=True)
        self.assertEqual((again["steps"], again["stopped"]), (5, False))

    def test_stops_on_control_c_with_what_was_done_saved(self):
        config = tiny(self.path("out"), self.data)
        config["train"]["steps"] = 1000000
        with self.assertRaises(KeyboardInterrupt):
            cleave.train(config, on_step=lambda line: os.kill(os.getpid(), signal.SIGINT) if line["step"] == 2 else None)
        self.assertTrue(pathlib.Path(self.path("out"), "checkpoints", "latest").exists())

    def test_answers_a_question_from_inside_a_training(self):
        answers = []
        cleave.train(tiny(self.path("out"), self.data), on_step=lambda line: answers.append(cleave.version()["version"]))
        self.assertEqual(len(answers), 5)

    def test_gives_the_bits_of_every_layout(self):
        one = cleave.train(tiny(self.path("one"), self.data))
        two = cleave.train(tiny(self.path("two"), self.data), settings={"parallel.pipeline": 2})
        self.assertEqual(one["weights"], two["weights"])

    def test_evaluates_and_generates_what_was_trained(self):
        out = self.path("out")
        report = cleave.train({"cleave": "0.1", **tiny(out, self.data)})
        evaluated = cleave.evaluate(out, self.data)
        self.assertEqual(evaluated["step"], report["steps"])
        self.assertEqual(evaluated["loss"], cleave.evaluate(out, self.data, devices=2)["loss"])
        generated = cleave.generate(out, "the quick", tokens=4, temperature=0)
        self.assertEqual(generated["prompt"], "the quick")

    def test_raises_what_the_program_refuses(self):
        with self.assertRaisesRegex(cleave.UsageError, "there is no key train.stepz"):
            cleave.train(tiny(self.path("out"), self.data), settings={"train.stepz": 1})
        with self.assertRaisesRegex(cleave.DoesNotFit, "raise devices.memory"):
            cleave.train(tiny(self.path("out"), self.data), settings={"devices.memory": "1KiB"})

    def test_plans_schedules_and_verifies(self):
        self.assertTrue(cleave.schedule("1f1b", stages=4, microbatches=8)["verified"])
        self.assertTrue(cleave.plan(model="gpt2-124m", cluster="a100-80gb:8", batch=64)["candidates"])
        self.assertFalse(cleave.plan(model="gpt3-175b", cluster="a100-80gb:8", batch=8)["fits"])
        self.assertTrue(cleave.plan(tiny(self.path("out"), self.data), set=["devices.memory=1GiB"])["fits"])
        program = self.path("program.txt")
        cleave.schedule("zb-h1", stages=2, microbatches=4, format="text", output=program)
        self.assertEqual(cleave.verify(program), [])
        self.assertTrue(cleave.verify(pathlib.Path(program).read_text().replace("0F0 ", "", 1)))
        self.assertEqual(cleave.version()["version"].count("."), 2)

    @unittest.skipUnless(HAS_NUMPY, "numpy is not installed")
    def test_takes_tokens_and_gives_weights_as_arrays(self):
        import numpy
        config = tiny(self.path("out"), "unused")
        settings = {"train.lr": numpy.float32(0.25), "train.betas": numpy.array([0.5, 0.75])}
        report = cleave.train(config, tokens=numpy.arange(3000) % 200, settings=settings)
        self.assertIn("lr = 0.25\n", pathlib.Path(self.path("out"), "config.toml").read_text())
        arrays = cleave.weights(report["checkpoint"])
        self.assertEqual(arrays["transformer.wte.weight"].shape, (256, 16))
        self.assertTrue(all(numpy.isfinite(array).all() for array in arrays.values()))
        with self.assertRaisesRegex(cleave.UsageError, "has token 300 at position 299"):
            cleave.train(config, tokens=numpy.arange(1, 3000), overwrite=True, settings={"model.vocab": 300})


if __name__ == "__main__":
    unittest.main()
