"""The interpreter as its host sees it: one function that runs one program."""

import gc

import modules
import zones
import guest
import wit_world
from componentize_py_types import Err


def show(error, text):
    guest.Printed.any = True
    wit_world.show(error, text)


class WitWorld(wit_world.WitWorld):
    def run(self, source: str, arguments: str) -> str:
        try:
            guest.prepare(show, wit_world.sleep, wit_world.keep)
            return guest.run(source, arguments)
        except guest.Failed as failed:
            raise Err((str(failed), failed.line))
        except MemoryError:
            raise Err(("MemoryError", None))


# What is there from the beginning is never looked at again when a program's garbage is collected: to look at it would
# copy every page of it.
gc.collect()
gc.freeze()
