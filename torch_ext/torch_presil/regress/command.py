# SPDX-License-Identifier: Apache-2.0
"""`presil regress`: plans, runs, reports."""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from . import baseline, exit_codes, failures, history, html, junit, live, process, ranking, records, results, summary
from . import testplan, versions
from .coverage_report import of_run as coverage_of
from .coverage_report import show as show_coverage
from .exit_codes import Lost, UsageError
from .filters import compile_filter
from .run_list import REGRESSION_SEED, Choice, Job, expand, fresh_seed
from .here import Here, jobs_of_each
from .kinds import default_chip
from .options import Options, check, split
from .runner import Runner
from .suite import SOURCE_ROOT, Loader, available, search_path

__all__ = ["Options", "Session", "main", "split"]
DEFAULT_SUITE = "smoke"


class Session:
    def __init__(self, options: Options, console: Console):
        self.options, self.console = options, console
        self.base = records.base(options.runs)
        self.folders = search_path(options.folders)

    def points_of(self, run: records.Run) -> list:
        """Testpoints of the folders whose suites ran: a team's report shows its own plan, or none."""
        ran = {str(Path(job.folder).resolve()) for job in run.jobs()}
        known = [str(folder.resolve()) for folder in self.folders]
        return testplan.load([*(f for f in known if f in ran), *sorted(ran - set(known))])

    # ---- the plan ----

    def choice(self) -> Choice:
        o = self.options
        if o.library and not Path(o.library).is_file():
            raise UsageError(f"--library {o.library}: there is no such file")
        seed = o.seed if o.seed is not None else fresh_seed() if o.mode == "soak" else REGRESSION_SEED
        library = str(Path(o.library).resolve()) if o.library else ""
        chip = os.environ.get("PRESIL_CHIP") or default_chip()
        lists = (o.chips, o.builds, o.memory, o.stress)
        modes = {"soak": o.mode == "soak", "hybrid": o.mode == "hybrid"}
        one = {"case_seed": o.case_seed, "case_index": o.case_index or 0}
        return Choice(*lists, library, seed, o.seeds or 0, **one, **modes, default_chip=chip)

    def fresh(self) -> records.Run:
        """A new run's plan out of suites."""
        names = self.options.suites or (DEFAULT_SUITE,)
        choice = self.choice()
        jobs = self._filtered(expand(Loader(self.folders).load(names), choice))
        return self._create(jobs, list(names), choice.run_seed, self.options.mode)

    def _filtered(self, jobs: list[Job]) -> list[Job]:
        if not self.options.filter:
            return jobs
        rule = compile_filter(self.options.filter)
        kept = [job for job in jobs if rule(job)]
        if not kept:
            raise UsageError(f"--filter {self.options.filter!r} leaves none of {len(jobs)} runs (--list names them)")
        return kept

    def failed(self) -> records.Run:
        """A new run of what failed in the last one, with the same seeds."""
        last = records.find(self.base, self.options.run)
        bad = {r["key"] for r in last.records() if r["status"] in exit_codes.BAD}
        jobs = [job for job in last.jobs() if job.key in bad]
        if not jobs:
            raise UsageError(f"--rerun-failed: nothing failed in {last.name}")
        overrides = {"chip": self.options.chips, "build": self.options.builds}
        overrides |= {"memory": self.options.memory, "stress": self.options.stress}
        for name, values in overrides.items():
            if values:
                plain = ["" if v in ("default", "none") else v for v in values]
                jobs = [Job.from_dict({**job.as_dict(), name: value}) for job in jobs for value in plain]
        jobs = list({job.key: job for job in self._filtered(jobs)}.values())
        plan = last.plan
        return self._create(jobs, plan["suites"], plan["seed"], plan["mode"], again=last.name)

    def _create(self, jobs, suites, seed, mode, **more) -> records.Run:
        plan = {
            "suites": suites,
            "seed": seed,
            "mode": mode,
            "started": results.now(),
            "command": sys.argv[1:],
            "directory": os.getcwd(),
            "against": self.options.against,
            "versions": versions.collect(),
            **more,
            "jobs": [{"key": job.key, **job.as_dict()} for job in jobs],
        }
        name = self.options.run if not self.options.rerun_failed else None
        return records.Run.create(self.base, plan, name)

    # ---- running ----

    def go(self) -> int:
        o = self.options
        if o.list:
            return self.list()
        if o.accept is not None and not o.suites and not o.rerun_failed:
            return self.accept(records.find(self.base, o.run))
        if o.rank and not (o.suites or o.rerun_failed or o.resume):
            return self.rank(records.find(self.base, o.run))
        if o.resume:
            run = records.find(self.base, o.run)
        else:
            run = self.failed() if o.rerun_failed else self.fresh()
        run.lock()
        done = self._finished(run) if o.resume else []
        left = {r["key"] for r in done}
        jobs = [job for job in run.jobs() if job.key not in left]
        self._announce(run, jobs, done)
        known = baseline.Baselines(o.against or run.plan.get("against"), self.base)
        began, interrupted, lost = time.monotonic(), False, ""
        earlier = history.durations(history.load(self.base, run.name))
        jobs = history.longest_first(jobs, earlier)
        with self._machine(jobs) as machine:
            with live.Display(self.console, len(run.plan["jobs"]), earlier, len(done)) as display:
                runner = Runner(run, jobs, machine, known, display, o.max_failures)
                runner.versions = versions.short(run.plan["versions"])
                try:
                    runner.go()
                except KeyboardInterrupt:
                    interrupted = True
                except Lost as error:
                    interrupted, lost = True, str(error)
        if lost:
            self.console.print(lost, style="red", highlight=False, markup=False)
        code = self.report(run, known, time.monotonic() - began, interrupted, runner.stopped)
        return exit_codes.INTERNAL if lost else code

    def _machine(self, jobs: list[Job]):
        """Where cases run; ends with the `with` that has it."""
        o, cores = self.options, exit_codes.cores()
        if not o.farm or not jobs:
            at_once = o.jobs or cores
            return contextlib.nullcontext(Here(at_once, jobs_of_each(at_once, len(jobs), cores)))
        from .farm.machine import opened

        return opened(o.farm, jobs, o.jobs, cores, lambda text: self.console.print(text, style="dim", markup=False))

    def _finished(self, run: records.Run) -> list[dict]:
        """Of a run that is gone on with: what counts as done. Infrastructure's failures are tried again, and what a
        killed runner left behind is ended first."""
        left = process.kill_marked(str(run.path), below=True)
        if left:
            self.console.print(f"ended {left} processes that the earlier runner had left behind", highlight=False)
        return [r for r in run.records() if r["status"] != "infrastructure"]

    def _announce(self, run: records.Run, jobs: list[Job], done: list) -> None:
        plan = run.plan
        seeds = f"seed {plan['seed']} ({plan['mode']})"
        before = f", {len(done)} done before" if done else ""
        text = f"{' '.join(plan['suites'])}: {len(jobs)} runs{before}, {seeds}, in {run.path}"
        self.console.print(text, highlight=False, soft_wrap=True)

    # ---- reports ----

    def report(self, run, known: baseline.Baselines, seconds: float, interrupted: bool, stopped: bool) -> int:
        found = failures.examined(run, self.options.good, self.base, interrupted, self.console)
        code = exit_codes.exit_code([r["status"] for r in found])
        summary.show(self.console, run, found, self.points_of(run), seconds, known.name)
        self._write(run, found, code, known.name)
        if interrupted:
            farm = f" --farm {self.options.farm}" if self.options.farm else ""
            self.console.print(f"interrupted; presil regress --resume --run {run.name}{farm} goes on", highlight=False)
            return exit_codes.INTERRUPTED
        if stopped:
            self.console.print(f"stopped after {self.options.max_failures} failures (--max-failures)", highlight=False)
        if self.options.rank:
            ranking.of_run(run, found, self.console)
        if self.options.accept is not None:
            if code in (exit_codes.PASS, exit_codes.CYCLES):
                return self.accept(run)
            self.console.print("--accept-cycles: not written, because something failed", highlight=False)
        return code

    def _write(self, run, found: list[dict], code: int, against: str) -> None:
        points = self.points_of(run)
        reached = coverage_of(run, found, points, self.folders, SOURCE_ROOT)
        if reached:
            show_coverage(self.console, reached)
        whole = results.whole(run, found, points, code, reached)
        dvsim = {key: value for key, value in whole.items() if key != "presil"}
        records.write_whole(run.path / "results.json", results.text(whole))
        records.write_whole(run.path / "dvsim.json", results.text(dvsim))
        texts = {"json": results.text(whole), "junit": junit.junit(run, found)}
        if points:
            facts = [{**job.as_dict(), "name": job.name} for job in run.jobs()]
            texts["testplan"] = results.text(testplan.of_dvsim(points, whole["block"]["name"], facts))
            records.write_whole(run.path / testplan.FILE, texts["testplan"])
        records.write_whole(run.path / "junit.xml", texts["junit"])
        pages = [run.path / "report.html", *([Path(self.options.html)] if self.options.html else [])]
        for page in pages:
            records.write_whole(page, html.render(html.data(run, found, points, code, page, against, reached)))
        for name, text in texts.items():
            if path := getattr(self.options, name):
                records.write_whole(Path(path), text)
        self.console.print(f"report: {pages[-1]}", highlight=False, soft_wrap=True)

    def accept(self, run: records.Run) -> int:
        for path, count in baseline.accept(run, self.options.accept).items():
            self.console.print(f"{path}: {count} cases changed; review its diff", highlight=False, soft_wrap=True)
        return exit_codes.PASS

    def rank(self, run: records.Run) -> int:
        """Of a run that has ended."""
        value = ranking.of_run(run, run.records(), self.console)
        if self.options.json:
            records.write_whole(Path(self.options.json), results.text(value))
        return exit_codes.PASS

    def list(self) -> int:
        loader, o = Loader(self.folders), self.options
        if not (o.suites or o.resume or o.rerun_failed):
            self.suites(loader)
            return exit_codes.PASS
        cases = loader.load(o.suites) if o.suites else []
        planned = expand(cases, self.choice()) if o.suites else records.find(self.base, o.run).jobs()
        jobs = self._filtered(planned)
        earlier = history.durations(history.load(self.base))
        table = Table(title=f"{len(jobs)} runs", title_justify="left")
        for name in ("run", "kind", "seed", "last time", "tags", "testpoints"):
            table.add_column(name, overflow="fold")
        for job in jobs:
            seconds = f"{earlier[job.key]:.1f} s" if job.key in earlier else ""
            row = (job.key, job.kind, str(job.seed), seconds, " ".join(job.tags), " ".join(job.testpoints))
            table.add_row(*map(Text, row))
        self.console.print(table)
        ran = {str(Path(case.folder).resolve()) for case in cases}
        points = testplan.load(dict.fromkeys([*map(str, self.folders), *sorted(ran)]))
        for text in testplan.unmapped(points, cases):
            if text.startswith("case"):
                self.console.print(Text(text, "yellow"))
        facts = [{"key": job.key, **job.as_dict(), "name": job.name} for job in jobs]
        name = "+".join(self.options.suites)
        told = {self.options.json: {"jobs": facts}, self.options.testplan: testplan.of_dvsim(points, name, facts)}
        for path, value in told.items():
            if path:
                records.write_whole(Path(path), results.text(value))
        return exit_codes.PASS

    def suites(self, loader: Loader) -> None:
        import tomllib

        table = Table(title="Suites (presil regress --list SUITE names its runs)", title_justify="left")
        for name in ("suite", "about", "file"):
            table.add_column(name, overflow="fold")
        for name, path in sorted(available(self.folders).items()):
            head = tomllib.loads(path.read_text()).get("suite", {})
            table.add_row(name, head.get("about", ""), str(path))
        self.console.print(table)


def main(options: Options, console: Console | None = None) -> int:
    if console is None:
        console = Console() if sys.stdout.isatty() else Console(width=160)

    def ended(*_):
        raise KeyboardInterrupt

    before = [(number, signal.signal(number, ended)) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)]
    try:
        check(options)
        return Session(options, console).go()
    except UsageError as error:
        print(f"presil regress: {error}", file=sys.stderr)
        return exit_codes.USAGE
    except OSError as error:
        print(f"presil regress: {error}; free what is full and go on with --resume", file=sys.stderr)
        return exit_codes.INTERNAL
    except KeyboardInterrupt:
        print("presil regress: interrupted", file=sys.stderr)
        return exit_codes.INTERRUPTED
    finally:
        with contextlib.suppress(ValueError):
            for number, handler in before:
                signal.signal(number, handler)
