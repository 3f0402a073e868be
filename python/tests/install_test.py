"""Run by ctest: install_test.py CMAKE BUILD UNINSTALL. What `make install` puts below a prefix is where python3 looks for
modules there, finds the library beside it, and can be taken away."""
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile
import unittest

CMAKE, BUILD, UNINSTALL = sys.argv[1:4]


class Install(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.prefix = pathlib.Path(directory.name).resolve() / "x"
        for component in ("python", "runtime"):
            subprocess.run([CMAKE, "--install", BUILD, "--prefix", self.prefix, "--component", component],
                           check=True, stdout=subprocess.DEVNULL)

    def import_from(self, where):
        """What python3 says that has nothing but `where` besides its own modules; it keeps what it compiles."""
        ours = ("CLEAVE_LIBRARY", "PYTHONDONTWRITEBYTECODE")
        environment = {key: value for key, value in os.environ.items() if key not in ours}
        environment["PYTHONPATH"] = str(where)
        return subprocess.run([sys.executable, "-c", "import cleave; print(cleave.__file__)"], env=environment,
                              cwd=self.prefix, capture_output=True, text=True)

    def searched(self):
        """As python3 looks below /usr/local, where Debian's has its modules, or below its own prefix."""
        modules = pathlib.Path(sysconfig.get_path("purelib"))
        return self.prefix.joinpath(*modules.parts[-3:])

    def test_puts_the_module_where_python_looks_and_finds_the_library(self):
        said = self.import_from(self.searched())
        self.assertEqual(said.stderr, "")
        self.assertEqual(said.stdout.strip(), str(self.searched() / "cleave/__init__.py"))

    def test_is_taken_away_with_what_python_compiled(self):
        self.import_from(self.searched())
        self.assertTrue((self.searched() / "cleave/__pycache__").is_dir())
        manifest = self.prefix.parent / "manifest"
        manifest.write_text("\n".join(str(file) for file in self.prefix.rglob("*")
                                      if not file.is_dir() and "__pycache__" not in file.parts))
        subprocess.run([UNINSTALL, manifest], check=True)
        self.assertFalse(self.prefix.exists())


unittest.main(argv=sys.argv[:1])
