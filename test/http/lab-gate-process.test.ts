/** Candidates run in a child process: hangs and crashes affect only the child. */
import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { GateProcess } from '../../src/lab/gate/gate-process.ts';
import type { GateJob } from '../../src/lab/gate/protocol.ts';
import { PhaseTimer, type TimeLimits } from '../../src/lab/gate/time-limits.ts';
import { type Finding, type KernelRegistration, LabError } from '../../src/lab/types.ts';
import { contracts } from '../../kernels/contracts.ts';
import { renderStub, stubTargets } from '../../src/lab/stubs.ts';
import { inputTricks, registrationOf } from '../support/lab-input-tricks.ts';
import { honest, tricks } from '../support/lab-tricks.ts';
import { naiveKernels } from '../support/naive-kernels.ts';
import { testPlatform } from '../support/test-platform.ts';
import { everyNth, runsRest, selectCases } from '../support/tier.ts';
import { entryPath } from '../support/host.ts';

const childPath = entryPath('lab-child');
/** Long enough for kernels that terminate, on any machine: limits grow with its load. */
const limits = { run: 4000 };
let gate: GateProcess;
beforeAll(async () => {
  gate = new GateProcess({ childPath, limits });
  await gate.warmUp();
});
afterAll(() => gate.close());

const jobOf = (registration: KernelRegistration): GateJob => ({
  registration,
  mode: 'standard',
  toleranceScale: 1,
  seed: 11,
  formats: ['q8_0'],
  live: { byOp: {}, captured: {} },
});
const good = jobOf(honest[0] as KernelRegistration);
const hanging = jobOf(tricks.find(({ hangs }) => hangs)?.registration as KernelRegistration);

/** `lab_busy` is no verdict, and asks for another attempt: so does this, however long the machine stays busy. */
async function registerUntilJudged(job: GateJob, by = gate) {
  for (;;) {
    try {
      return await by.register(job);
    } catch (error) {
      if (!(error instanceof LabError && error.code === 'lab_busy')) throw error;
    }
  }
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};
const waitUntilGone = async (pid: number) => {
  while (isAlive(pid)) await sleep(20);
};

const isWarning = ({ severity }: Finding): boolean => severity === 'warning';

/** Kernels that hang keep all cores busy until their limit; `npm test` has one, in the tests of the child process. */
const tricksToTry = selectCases(tricks, ({ hangs }, index) => index % 6 === 0 && !hangs);

describe('the gate rejects kernels that cheat', () => {
  it.each(honest.map((registration) => [registration.op, registration] as const))(
    'the honest %s that they are made from is accepted',
    async (_, registration) => {
      const report = await registerUntilJudged(jobOf(registration));
      expect(report.stages.filter(({ ok }) => !ok)).toEqual([]);
      expect(report.accepted).toBe(true);
    },
  );

  it.each(tricksToTry.map((trick) => [trick.name, trick] as const))('a kernel that %s', async (_, trick) => {
    const report = await registerUntilJudged(jobOf(trick.registration));
    const findings = report.stages
      .flatMap((stage) => stage.findings)
      .filter(({ severity }) => severity === (trick.flagged ? 'warning' : 'error'));
    const found = findings.map(({ code }) => code);
    expect(
      trick.codes.some((code) => found.includes(code)),
      JSON.stringify(report.stages.at(-1)),
    ).toBe(true);
    expect(report.accepted).toBe(trick.flagged === true);
  });
});

describe('the gate rejects kernels that are wrong on some inputs of the product', async () => {
  const wgsl = await testPlatform().wgsl();
  const ops = [...new Set(inputTricks.map(({ op }) => op))];

  it.each(everyNth(ops, 6))('the %s stub that they are made from is accepted', async (op) => {
    const report = await registerUntilJudged(jobOf(registrationOf(wgsl, { op, edits: [] })));
    expect(report.stages.filter(({ ok }) => !ok)).toEqual([]);
    expect(report.accepted).toBe(true);
    const warnings = report.stages.flatMap(({ findings }) => findings).filter(isWarning);
    expect(warnings.filter(({ code }) => code !== 'constant_condition')).toEqual([]);
  });

  const inputTricksToTry = selectCases(inputTricks, (_, index) => index % 16 === 0);
  it.each(inputTricksToTry.map((trick) => [trick.op, trick.name, trick] as const))(
    'a kernel for %s that %s',
    async (_op, _name, trick) => {
      for (const seed of runsRest ? [1, 2, 3] : [1]) {
        const report = await registerUntilJudged({ ...jobOf(registrationOf(wgsl, trick)), seed });
        expect(report.stages.filter(({ ok }) => !ok).map(({ stage }) => stage)).toEqual(['parity']);
      }
    },
  );
});

describe('no condition of an honest kernel is untested', async () => {
  const wgsl = await testPlatform().wgsl();
  const stubs = [...contracts.values()].flatMap(({ op, bindings }) => {
    const formats = bindings.some(({ dtype }) => dtype === 'weights')
      ? ['q8_0', 'q4_k', 'f16', 'f32']
      : ['q8_0'];
    return stubTargets(op, ['shader-f16', 'subgroups']).flatMap((target) =>
      formats.map((format) => ({ op, target, format, ...renderStub(wgsl, op, target, format) })),
    );
  });
  const untested = async (registration: KernelRegistration, format = 'q8_0') => {
    const report = await registerUntilJudged({ ...jobOf(registration), formats: [format] });
    expect(report.stages.filter(({ ok }) => !ok)).toEqual([]);
    const codes = ['untested_condition', 'untested_value', 'conditions_unchecked', 'bounds_unchecked'];
    // These are only told where both sides were checked.
    const warned = ['constant_condition', 'data_condition'];
    return report.stages
      .flatMap(({ findings }) => findings)
      .filter((one) => codes.includes(one.code) || (warned.includes(one.code) && isWarning(one)));
  };

  it.each(everyNth(stubs, 40))(
    '$op $target $format',
    async ({ op, format, source, dispatch, overrides, requires }) => {
      expect(await untested({ name: 'stub', op, source, dispatch, overrides, requires }, format)).toEqual([]);
    },
  );
  it.runIf(runsRest).each(naiveKernels.filter(({ code }) => code !== 'large_workgroup'))(
    'a naive kernel: $name',
    async ({ registration }) => expect(await untested(registration)).toEqual([]),
  );
});

describe('a child process that fails', () => {
  /** A minimal child process. */
  const fakeGate = async (script: string) => {
    const folder = await mkdtemp(join(tmpdir(), 'lathe-gate-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const path = join(folder, 'child.mjs');
    await writeFile(path, `${script}\nprocess.send({ type: 'ready', load: 1 });`);
    const own = new GateProcess({ childPath: path, limits });
    onTestFinished(() => own.close());
    return own;
  };

  it('a lost device is a finding with the last output of the child', async () => {
    const own = await fakeGate(`
      process.on('message', () => {
        process.send({ type: 'begin', stage: 'parity' });
        console.error('words on stderr');
        process.send({ type: 'lost', message: 'the device was lost (unknown: oops)' }, () => process.exit(1));
      });`);
    const report = await own.register(good);
    expect(report).toMatchObject({ accepted: false, seed: good.seed });
    const [finding] = report.stages.at(-1)?.findings ?? [];
    expect(report.stages.at(-1)).toMatchObject({ stage: 'parity', ok: false });
    expect(finding).toMatchObject({ code: 'child_died' });
    expect(finding?.message).toMatch(/exit code 1.*the device was lost \(unknown: oops\)\nwords on stderr/s);
  });

  it('an error of the gate is no verdict on the kernel, and the next job gets a new child', async () => {
    const own = await fakeGate(`
      process.on('message', () => process.send({ type: 'failed', message: 'a mistake of ours' }));`);
    await own.warmUp();
    const { pid } = own;
    await expect(own.register(good)).rejects.toMatchObject({
      code: 'lab_failed',
      message: 'the gate failed: a mistake of ours',
    });
    await waitUntilGone(pid as number);
    expect(own.pid).not.toBe(pid);
  });
});

describe('time limits', () => {
  it('a stopped timer does not restart when later messages of the child arrive', () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const timer = new PhaseTimer({ compile: 10, run: 10, gate: 10 }, () => expect.unreachable());
    timer.stop();
    timer.enter('run', 1);
    expect(vi.getTimerCount()).toBe(0);
  });

  /** A child that measures nothing: it sends the phases of a script. */
  const scripted = async (script: string, own: Partial<TimeLimits>, load = 1) => {
    const folder = await mkdtemp(join(tmpdir(), 'lathe-gate-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const path = join(folder, 'child.mjs');
    const first = join(folder, 'first');
    await writeFile(
      path,
      `import { existsSync, writeFileSync } from 'node:fs';
      const isFirst = !existsSync(${JSON.stringify(first)});
      writeFileSync(${JSON.stringify(first)}, '');
      const enter = (phase, load = 1) => process.send({ type: 'phase', phase, load });
      const report = () => process.send({ type: 'report', report: { accepted: true, stages: [] } });
      process.on('message', () => { ${script} });
      process.send({ type: 'ready', load: isFirst ? 1 : ${load} });`,
    );
    const gateProcess = new GateProcess({ childPath: path, limits: own });
    onTestFinished(() => gateProcess.close());
    return gateProcess;
  };

  it('compiling and the work of the gate do not count against the limit of the kernel', async () => {
    const own = await scripted(
      `enter('compile');
      setTimeout(() => { enter('gate'); setTimeout(report, 100); }, 100);`,
      { run: 1 },
    );
    expect(await own.register(good)).toMatchObject({ accepted: true });
  });

  it('a kernel whose compilation takes too much memory is rejected, and the next one is checked', async () => {
    const own = new GateProcess({ childPath, limits, maxGrowthBytes: 128 * 2 ** 20 });
    onTestFinished(() => own.close());
    await own.warmUp();
    const levels = Array.from(
      { length: 22 },
      (_, n) => `fn f${n + 1}(x: f32) -> f32 { return f${n}(x * 1.5) + f${n}(x + 2.0); }`,
    );
    const { registration } = good;
    const source = registration.source
      .replace('@compute', `fn f0(x: f32) -> f32 { return sin(x); }\n${levels.join('\n')}\n@compute`)
      .replace('y[start + c] = result;', 'y[start + c] = result + 1e-30 * f22(result);');
    expect(source).toContain('f22(result)');
    const report = await registerUntilJudged(jobOf({ ...registration, source }), own);
    expect(report.accepted).toBe(false);
    expect(report.stages.at(-1)?.findings).toMatchObject([
      {
        code: 'memory_limit',
        message: expect.stringMatching(/^compiling the kernel took more than 0\.1 GiB of memory/),
      },
    ]);
    expect((await registerUntilJudged(good, own)).accepted).toBe(true);
  });

  it('a kernel that compiles for longer than the run limit is accepted', async () => {
    const own = new GateProcess({ childPath, limits: { run: 1000 } });
    onTestFinished(() => own.close());
    const { source, ...rest } = good.registration;
    // A constant that is in no shader cache.
    const unrolled = Array.from({ length: 60 }, (_, i) => `more += sin(more * ${Math.random() + i});`).join(
      '\n',
    );
    const slow = source.replace('let scale =', `var more = squares;\n${unrolled}\nlet scale = 0.0 * more +`);
    const report = await own.register(jobOf({ ...rest, source: slow }));
    expect(report.stages.filter(({ ok }) => !ok)).toEqual([]);
    expect(report.accepted).toBe(true);
  });

  it('limits grow with the load of the machine', async () => {
    const own = await scripted(`enter('run', 9); setTimeout(report, 1500);`, { run: 1000 });
    expect(await own.register(good)).toMatchObject({ accepted: true });
  });

  it('a run is repeated if the machine became busier during it', async () => {
    const own = await scripted(`enter('run'); if (!isFirst) report();`, { run: 1000 }, 4);
    expect(await own.register(good)).toMatchObject({ accepted: true });
  });

  it('a kernel that exceeds its limit twice is rejected, also on a busy machine', async () => {
    const own = await scripted(`enter('run');`, { run: 100 }, 4);
    const report = await own.register(good);
    expect(report).toMatchObject({ accepted: false, kernel: good.registration.name, seed: good.seed });
    expect(report.stages.at(-1)?.findings).toMatchObject([{ code: 'deadline', severity: 'error' }]);
  });

  it('a machine that is too busy gives an error instead of a verdict', async () => {
    const own = await scripted(`enter('run');`, { run: 100 }, 40);
    await expect(own.register(good)).rejects.toMatchObject({
      code: 'lab_busy',
      message: expect.stringContaining('40 times as long') as string,
    });
  });

  it('a compilation that does not end is reported as such', async () => {
    const own = await scripted(`enter('compile');`, { compile: 100 });
    const report = await own.register(good);
    expect(report.stages.at(-1)?.findings).toMatchObject([
      { code: 'deadline', message: expect.stringContaining('compiling the kernel did not finish') as string },
    ]);
  });

  it('a gate that does not end is no verdict on the kernel', async () => {
    const own = await scripted(``, { gate: 100 });
    await expect(own.register(good)).rejects.toMatchObject({ code: 'lab_failed' });
  });
});

describe('the child process', () => {
  it('is reused for the next job', async () => {
    await gate.warmUp();
    const { pid } = gate;
    await gate.register(good);
    await gate.register(good);
    expect(gate.pid).toBe(pid);
  });

  it('receives large inputs unchanged', async () => {
    const columns = 1024;
    const x = Float32Array.from({ length: 64 * columns }, (_, i) => Math.sin(i));
    const one = {
      name: 'captured 64x1024',
      dims: { tokens: 64, columns },
      params: { columns, eps: 1e-5 },
      tensors: { x, norm_weight: new Float32Array(columns).fill(1) },
    };
    const report = await gate.register({ ...good, live: { byOp: {}, captured: { rms_norm: [one] } } });
    expect(report.parity?.at(-1)).toMatchObject({ case: 'captured 64x1024', ok: true });
  });

  it('is killed at the deadline; the host is not blocked, and the next job gets a new child', async () => {
    // A kernel that hangs keeps all cores busy until the limit.
    const own = new GateProcess({ childPath, limits: { run: 1500 } });
    onTestFinished(() => own.close());
    await own.warmUp();
    const { pid } = own;
    let turns = 0;
    const timer = setInterval(() => (turns += 1), 10);
    const [report, next] = await Promise.all([registerUntilJudged(hanging, own), own.register(good)]);
    clearInterval(timer);
    // Every 10 ms for 1.5 s on an idle machine; a blocked event loop counts one or two.
    expect(turns).toBeGreaterThan(10);
    expect(report).toMatchObject({ accepted: false, kernel: 'trick' });
    expect(report.stages.map(({ stage }) => stage)).toEqual([
      'parse',
      'interface',
      'safety',
      'pipeline',
      'parity',
    ]);
    expect(report.stages.at(-1)).toMatchObject({ ok: false, findings: [{ code: 'deadline' }] });
    expect(next.accepted).toBe(true);
    expect(own.pid).not.toBe(pid);
    await waitUntilGone(pid as number);
  });

  it.each(everyNth(['SIGSEGV', 'SIGKILL', 'SIGABRT'] as const, 3))(
    'that dies by %s is a finding',
    async (signal) => {
      await gate.warmUp();
      const running = gate.register(hanging);
      await sleep(500);
      process.kill(gate.pid as number, signal);
      const report = await running;
      expect(report.accepted).toBe(false);
      expect(report.stages.at(-1)?.findings).toMatchObject([
        { code: 'child_died', severity: 'error', message: expect.stringContaining(signal) as string },
      ]);
      expect(await gate.register(good)).toMatchObject({ accepted: true });
    },
  );

  it('is killed on abort; a queued job is rejected at once', async () => {
    await gate.warmUp();
    const { pid } = gate;
    const first = new AbortController();
    const second = new AbortController();
    const reasons = [new Error('the client went away'), new Error('so did this one')];
    const running = gate.register(hanging, first.signal);
    const waiting = gate.register(good, second.signal);
    second.abort(reasons[1]);
    await expect(waiting).rejects.toBe(reasons[1]);
    await sleep(300);
    expect(isAlive(pid as number)).toBe(true);
    first.abort(reasons[0]);
    await expect(running).rejects.toBe(reasons[0]);
    await waitUntilGone(pid as number);
    expect(await gate.register(good)).toMatchObject({ accepted: true });
  });

  it('is not started for a job whose signal is already aborted', async () => {
    const aborted = AbortSignal.abort(new Error('too late'));
    await expect(gate.register(good, aborted)).rejects.toThrow('too late');
  });

  it('is killed by close(), which rejects running and queued jobs', async () => {
    const own = new GateProcess({ childPath, limits });
    await own.warmUp();
    const { pid } = own;
    const running = own.register(hanging);
    const waiting = own.register(good);
    const both = Promise.allSettled([running, waiting]);
    await sleep(200);
    await own.close();
    for (const result of await both) {
      expect(result).toMatchObject({ status: 'rejected', reason: { code: 'lab_failed' } });
    }
    await waitUntilGone(pid as number);
    await expect(own.register(good)).rejects.toThrow('the lab is closed');
  });

  it('that cannot start is reported', async () => {
    const own = new GateProcess({ childPath, adapter: '(none has this name)' });
    await expect(own.register(good)).rejects.toMatchObject({
      code: 'lab_failed',
      message: expect.stringContaining('none has this name') as string,
    });
    await own.close();
  });

  it('ends with its host, even one that is killed while a kernel hangs', async () => {
    const script = `
      import { GateProcess } from ${JSON.stringify(new URL('../../src/lab/gate/gate-process.ts', import.meta.url).href)};
      const gate = new GateProcess({ childPath: ${JSON.stringify(childPath)} });
      await gate.warmUp();
      gate.register(${JSON.stringify(hanging)});
      setTimeout(() => console.log(gate.pid), 500);
    `;
    const host = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const pid = await new Promise<number>((resolve) => {
      host.stdout.once('data', (text: Buffer) => resolve(Number(text.toString())));
    });
    expect(isAlive(pid)).toBe(true);
    host.kill('SIGKILL');
    await waitUntilGone(pid);
  });

  it('does not keep its host alive when it is idle', async () => {
    const script = `
      import { GateProcess } from ${JSON.stringify(new URL('../../src/lab/gate/gate-process.ts', import.meta.url).href)};
      const gate = new GateProcess({ childPath: ${JSON.stringify(childPath)} });
      const keep = setInterval(() => {}, 1000);
      await gate.warmUp();
      const report = await gate.register(${JSON.stringify(good)});
      console.log(gate.pid, report.accepted);
      clearInterval(keep);
    `;
    const host = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let output = '';
    host.stdout.on('data', (text: Buffer) => (output += text.toString()));
    const code = await new Promise((resolve) => host.once('close', resolve));
    const [pid, accepted] = output.trim().split(' ');
    expect([code, accepted]).toEqual([0, 'true']);
    await waitUntilGone(Number(pid));
  });
});
