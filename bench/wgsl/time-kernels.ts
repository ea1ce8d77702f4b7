/** Times kernels of one op at one size in turns, on inputs that rotate, and compares what was timed with the oracle. */
import { PassTimer } from '../../src/engine/gpu/pass-timer.ts';
import { prepareBuiltin, type PreparedBuiltin } from '../../src/lab/gate/builtin.ts';
import { CandidateBuilder } from '../../src/lab/gate/build.ts';
import { evaluateGrid } from '../../src/lab/gate/dispatch.ts';
import { poisonWord } from '../../src/lab/gate/elements.ts';
import { GuardedBuffers, type RunResult } from '../../src/lab/gate/guarded-buffers.ts';
import { judgeCase } from '../../src/lab/gate/judge-case.ts';
import { type GateDevice, type Reference, ReferenceCache } from '../../src/lab/gate/references.ts';
import { inputWordsByName } from '../../src/lab/gate/run-case.ts';
import { resolveTolerance } from '../../src/lab/ops/descriptor.ts';
import { labOps } from '../../src/lab/ops/index.ts';
import { parseStage } from '../../src/lab/stages/parse.ts';
import type { LabOp } from '../../src/lab/ops/index.ts';
import type { KernelRegistration, ParityCase } from '../../src/lab/types.ts';
import { overrideValues, reflect } from '../../src/lab/wgsl/reflect.ts';
import type { Timing, TimingJob, TimingResult } from './protocol.ts';

/** A round repeats the dispatch until it takes about this long. */
const roundMs = 4;
const maxRepeats = 256;
const maxCopies = 64;

interface Contestant {
  readonly name: string;
  /** Encodes a dispatch on a copy of the inputs. */
  encode(pass: GPUComputePassEncoder, copy: number): void;
  /** Runs it once on inputs as they were and outputs of NaN. Resolves with the outputs. */
  finish(): Promise<RunResult>;
  destroy(): void;
}

/** @throws Error when a kernel cannot be compiled or run at this size */
export async function timeKernels(gateDevice: GateDevice, job: TimingJob): Promise<TimingResult> {
  const op = labOps.get(job.op);
  if (!op) throw new Error(`unknown op '${job.op}'`);
  const { gpu } = gateDevice;
  const { seed, dims, format } = job;
  const parityCase = op.sizedCase({ seed, dims, format });
  const reference = new ReferenceCache(gateDevice, op).getReference(parityCase);
  const contents = contentsOf(op, parityCase, reference);
  const caseBytes = Object.values(contents).reduce((sum, words) => sum + words.byteLength, 0);
  const copies = Math.max(2, Math.min(maxCopies, Math.ceil(job.rotatedBytes / caseBytes)));
  const timer = new PassTimer(gpu);
  const contestants: Contestant[] = [];
  try {
    const buffers = Array.from(
      { length: copies },
      () => new GuardedBuffers(gpu.device, op.contract, parityCase, { contents, leadingCanaries: 1 }),
    );
    try {
      for (const [name, registration] of Object.entries(job.kernels))
        contestants.push(
          await candidate(gateDevice, { name, op, parityCase, registration, buffers, contents }),
        );
      const builtin = await builtinOf(gateDevice, { op, parityCase, reference, copies });
      if (builtin) contestants.push(builtin);
      const samples = await timeInTurns(contestants, timer, { rounds: job.rounds, copies });
      const timings: Record<string, Timing> = {};
      for (const contestant of contestants) {
        const wrong = faultOf(op, parityCase, { reference, contents, run: await contestant.finish() });
        timings[contestant.name] = {
          samples: samples.get(contestant) ?? [],
          ...(wrong === undefined ? {} : { wrong }),
        };
      }
      return { timings, copies, dims: parityCase.dims };
    } finally {
      for (const one of buffers) one.destroy();
    }
  } finally {
    for (const contestant of contestants) contestant.destroy();
    timer.destroy();
  }
}

/** Words of all storage bindings; outputs are NaN. */
function contentsOf(
  { contract }: LabOp,
  parityCase: ParityCase,
  { outWords }: Reference,
): Record<string, Uint32Array<ArrayBuffer>> {
  const outputs = contract.bindings.flatMap(({ name, role, dtype = 'f32' }) =>
    role === 'out'
      ? [[name, new Uint32Array(outWords[name] ?? 0).fill(poisonWord(dtype, 'nan'))] as const]
      : [],
  );
  return { ...inputWordsByName(contract, parityCase), ...Object.fromEntries(outputs) };
}

/** All candidates share the copies, one after the other. */
async function candidate(
  { gpu: { device } }: GateDevice,
  {
    name,
    op,
    parityCase,
    registration,
    buffers,
    contents,
  }: {
    readonly name: string;
    readonly op: LabOp;
    readonly parityCase: ParityCase;
    readonly registration: KernelRegistration;
    readonly buffers: readonly GuardedBuffers[];
    readonly contents: Readonly<Record<string, Uint32Array<ArrayBuffer>>>;
  },
): Promise<Contestant> {
  const { contract } = op;
  const { module, findings } = await parseStage(device, registration.source);
  if (!module) throw new Error(`${name}: ${findings[0]?.message ?? 'it does not compile'}`);
  const reflection = reflect(registration.source);
  const built = await new CandidateBuilder(device, { registration, contract, reflection, module }).build({});
  if (!built.candidate) throw new Error(`${name}: ${built.findings[0]?.message ?? 'it has no pipeline'}`);
  const { pipeline, layout } = built.candidate;
  const values = overrideValues(reflection, registration.overrides ?? {});
  const grid = evaluateGrid(
    registration.dispatch,
    { ...values, ...parityCase.dims },
    device.limits.maxComputeWorkgroupsPerDimension,
  );
  const groups = buffers.map((one) => one.bindGroup(layout));
  const encode = (pass: GPUComputePassEncoder, copy: number): void => {
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, groups[copy] as GPUBindGroup);
    pass.dispatchWorkgroups(...grid);
  };
  return {
    name,
    encode,
    async finish() {
      // Not those of the timed dispatches, which hold the outputs of the other contestants.
      const fresh = new GuardedBuffers(device, contract, parityCase, { contents, leadingCanaries: 2 });
      const readback = device.createBuffer({
        label: 'bench.readback',
        size: fresh.bytes,
        usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ,
      });
      const encoder = device.createCommandEncoder();
      const pass = encoder.beginComputePass();
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, fresh.bindGroup(layout));
      pass.dispatchWorkgroups(...grid);
      pass.end();
      fresh.copyTo(encoder, readback, 0);
      device.queue.submit([encoder.finish()]);
      await readback.mapAsync(GPUMapMode.READ);
      const copied = readback.getMappedRange().slice(0);
      readback.destroy();
      fresh.destroy();
      return fresh.inspect(copied, 0);
    },
    destroy() {},
  };
}

/** The kernels that the engine selects for this adapter. */
async function builtinOf(
  { gpu, pipelines }: GateDevice,
  {
    op,
    parityCase,
    reference,
    copies,
  }: {
    readonly op: LabOp;
    readonly parityCase: ParityCase;
    readonly reference: Reference;
    readonly copies: number;
  },
): Promise<Contestant | undefined> {
  const steps = op.builtin(parityCase, gpu.caps);
  if (!steps) return undefined;
  const { contract } = op;
  const { outWords } = reference;
  const make = () => prepareBuiltin(pipelines, gpu.device, { contract, parityCase, steps, outWords });
  const prepared: PreparedBuiltin[] = [];
  for (let copy = 0; copy < copies; copy++) prepared.push(await make());
  return {
    name: 'built-in',
    encode: (pass, copy) => prepared[copy]?.encode(pass),
    async finish() {
      // Its inputs changed where it writes to them.
      const fresh = await make();
      const written = await fresh.run();
      fresh.destroy();
      return { written, canaries: [], inputs: [] };
    },
    destroy() {
      for (const one of prepared) one.destroy();
    },
  };
}

/** In turns, so that other load affects all alike; the order changes from round to round. */
async function timeInTurns(
  contestants: readonly Contestant[],
  timer: PassTimer,
  { rounds, copies }: { readonly rounds: number; readonly copies: number },
): Promise<ReadonlyMap<Contestant, readonly number[]>> {
  const samples = new Map<Contestant, number[]>(contestants.map((one) => [one, []]));
  const repeats = new Map<Contestant, number>();
  let next = 0;
  const timed = (contestant: Contestant, count: number) =>
    timer.time((pass) => {
      for (let n = 0; n < count; n++) contestant.encode(pass, next++ % copies);
    });
  for (const contestant of contestants) {
    // The first run compiles, and the first on each copy may clear what the driver has not touched yet.
    await timed(contestant, copies);
    const ms = Math.min(await timed(contestant, 1), await timed(contestant, 1));
    repeats.set(contestant, Math.max(1, Math.min(maxRepeats, Math.ceil(roundMs / Math.max(ms, 1e-6)))));
  }
  for (let round = 0; round < rounds; round++) {
    for (let turn = 0; turn < contestants.length; turn++) {
      const contestant = contestants[(turn + round) % contestants.length] as Contestant;
      const count = repeats.get(contestant) ?? 1;
      samples.get(contestant)?.push((await timed(contestant, count)) / count);
    }
  }
  return samples;
}

/** The first error of what a contestant wrote; undefined where it is right. */
function faultOf(
  { contract }: LabOp,
  parityCase: ParityCase,
  {
    reference,
    contents,
    run,
  }: {
    readonly reference: Reference;
    readonly contents: Readonly<Record<string, Uint32Array<ArrayBuffer>>>;
    readonly run: RunResult;
  },
): string | undefined {
  const { findings } = judgeCase({
    contract,
    parityCase,
    run: {
      first: run,
      second: run,
      initialContents: contents,
      perturbedOutputs: {},
      counts: new Uint32Array(0),
    },
    expected: reference.expected,
    tolerance: resolveTolerance(contract, parityCase.format, { mode: 'standard' }),
  });
  return findings.find(({ severity }) => severity === 'error')?.message;
}
