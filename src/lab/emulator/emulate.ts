/**
 * Runs compute kernels without a GPU: WGSL compiled to JavaScript, one generator per invocation, with subgroups of any size and
 * subgroup matrices. It is for correctness, not for speed.
 */
import { reflect } from '../wgsl/reflect.ts';
import {
  type CompiledModule,
  type CompileOptions,
  compileModule,
  type Invocation,
  type RunInvocation,
} from './compile-module.ts';
import { EmulationError } from './emulation-error.ts';
import { RaceDetector } from './race-detector.ts';
import { EmulatedMemory, kernelRuntime, roundHalf } from './runtime.ts';
import { subgroupOperation } from './subgroup-operations.ts';
import type { SyncRequest, SyncSite } from './sync-functions.ts';
import { type Finding, Tracer } from './tracer.ts';
import type { Token } from '../wgsl/tokens.ts';

export interface EmulatedDispatch {
  /** By name of the binding's variable; each length is a multiple of 4 bytes. Written in place. */
  readonly buffers: Readonly<Record<string, ArrayBufferView>>;
  /** Workgroups in each dimension. */
  readonly grid: readonly [x: number, y: number, z: number];
  /** Only the first of these run, in each dimension; the kernel sees all. Default: all. */
  readonly firstWorkgroups?: readonly [x: number, y: number, z: number];
  /** Lanes of a subgroup, a power of two. */
  readonly subgroupSize: number;
  /** What workgroup memory holds before a workgroup runs: zeros as in WGSL, or words that show where it is read. Default: zeros. */
  readonly workgroupMemory?: 'zeros' | 'poison';
  /** Turns of loops, and calls, of all invocations together after which it ends. */
  readonly maxTurns?: number;
  /** Looks for races; the kernel must be compiled with `isTraced`. */
  readonly findsRaces?: boolean;
  /** Another observer of the run; `memories` by name of the variable. */
  readonly makeTracer?: (
    tokens: readonly Token[],
    memories: ReadonlyMap<string, EmulatedMemory>,
    workgroupMemory: readonly EmulatedMemory[],
  ) => Tracer;
}

/** A NaN, and as an integer a large number. */
const poison = 0x7fc0dead;

export class EmulatedKernel {
  readonly #module: CompiledModule;
  readonly #tokens: readonly Token[];

  /** @throws EmulationError for WGSL that the emulator does not support */
  constructor(source: string, options: CompileOptions = {}) {
    const reflection = reflect(source);
    this.#tokens = reflection.tokens;
    this.#module = compileModule(reflection, options);
  }

  /** The JavaScript that runs, for diagnosis. */
  get source(): string {
    return this.#module.source;
  }

  /** The buffers that it uses, with their binding numbers. */
  get resources(): CompiledModule['resources'] {
    return this.#module.resources;
  }

  /** Runs all workgroups, one after the other. */
  dispatch(options: EmulatedDispatch): readonly Finding[] {
    const {
      buffers,
      grid,
      firstWorkgroups = grid,
      subgroupSize,
      workgroupMemory: contents = 'zeros',
      findsRaces = false,
      maxTurns,
    } = options;
    const { resources, workgroupVariables, workgroupSize } = this.#module;
    const memories = new Map<string, EmulatedMemory>();
    const writable: EmulatedMemory[] = [];
    for (const { name, isWritable } of resources) {
      const buffer = buffers[name];
      if (!buffer) throw new Error(`emulator: no buffer for ${name}`);
      const memory = new EmulatedMemory(buffer);
      memories.set(name, memory);
      if (isWritable) writable.push(memory);
    }
    const workgroupMemory = workgroupVariables.map(({ name, sizeBytes }) => {
      const words = new Uint32Array(Math.ceil(sizeBytes / 4));
      const memory = new EmulatedMemory(words);
      memories.set(name, memory);
      return { words, memory };
    });
    const ofWorkgroup = workgroupMemory.map(({ memory }) => memory);
    const tracer =
      options.makeTracer?.(this.#tokens, memories, ofWorkgroup) ??
      (findsRaces
        ? new RaceDetector(this.#tokens, { ofWorkgroup, writable }, maxTurns)
        : new Tracer(this.#tokens, maxTurns));
    const { run, resetPrivates } = this.#module.link({ memories, runtime: kernelRuntime, tracer, roundHalf });
    const invocations = makeInvocations(workgroupSize, grid, subgroupSize);
    const [endX, endY, endZ] = grid.map((count, i) => Math.min(count, firstWorkgroups[i] as number)) as [
      number,
      number,
      number,
    ];
    for (let z = 0; z < endZ; z++) {
      for (let y = 0; y < endY; y++) {
        for (let x = 0; x < endX; x++) {
          for (const { words } of workgroupMemory) words.fill(contents === 'poison' ? poison : 0);
          tracer.startWorkgroup(invocations.length);
          for (const invocation of invocations) {
            invocation.workgroup_id = [x, y, z];
            invocation.global_invocation_id = invocation.local_invocation_id.map(
              (id, i) => id + ([x, y, z][i] as number) * (workgroupSize[i] as number),
            );
            resetPrivates(invocation);
          }
          if (this.#module.isGenerator) new Workgroup(run, invocations, subgroupSize, tracer).run();
          else for (const invocation of invocations) run(invocation);
        }
      }
    }
    return tracer.findings;
  }
}

function makeInvocations(
  [width, height, depth]: CompiledModule['workgroupSize'],
  grid: readonly number[],
  subgroupSize: number,
): Invocation[] {
  const count = width * height * depth;
  return Array.from({ length: count }, (_, index) => ({
    local_invocation_id: [
      index % width,
      Math.floor(index / width) % height,
      Math.floor(index / (width * height)),
    ],
    local_invocation_index: index,
    global_invocation_id: [],
    workgroup_id: [],
    num_workgroups: grid,
    subgroup_invocation_id: index % subgroupSize,
    subgroup_size: subgroupSize,
    subgroup_id: Math.floor(index / subgroupSize),
    num_subgroups: Math.ceil(count / subgroupSize),
  }));
}

/** Runs the invocations of a workgroup from one meeting to the next. */
class Workgroup {
  readonly #runs: readonly Generator<SyncRequest, void, unknown>[];
  /** What each invocation waits for; undefined when it has returned. */
  readonly #waits: (SyncRequest | undefined)[];
  readonly #invocations: readonly Invocation[];
  readonly #subgroupSize: number;
  readonly #tracer: Tracer;

  constructor(run: RunInvocation, invocations: readonly Invocation[], subgroupSize: number, tracer: Tracer) {
    this.#runs = invocations.map((invocation) => {
      const generator = run(invocation);
      if (!generator) throw new EmulationError('an entry point that is no generator');
      return generator;
    });
    this.#waits = this.#runs.map(() => undefined);
    this.#invocations = invocations;
    this.#subgroupSize = subgroupSize;
    this.#tracer = tracer;
  }

  run(): void {
    this.#runs.forEach((_, i) => this.#resume(i, undefined));
    for (;;) {
      for (let first = 0; first < this.#runs.length; first += this.#subgroupSize) this.#runSubgroup(first);
      const waiting = [...this.#waits.keys()].filter((i) => this.#waits[i] !== undefined);
      const site = this.#siteOf(waiting[0] ?? -1);
      if (!site) return;
      const here = waiting.filter((i) => this.#siteOf(i) === site).length;
      if (here < this.#runs.length)
        this.#tracer.find(
          'nonuniform_barrier',
          site.token,
          `${here} of ${this.#runs.length} invocations reach this barrier`,
        );
      this.#tracer.barrier(site.op, site.token);
      for (const i of waiting) this.#resume(i, undefined);
    }
  }

  #siteOf(index: number): SyncSite | undefined {
    return this.#waits[index]?.[0];
  }

  #resume(index: number, value: unknown): void {
    const { done, value: request } = (this.#runs[index] as Generator<SyncRequest, void, unknown>).next(value);
    this.#waits[index] = done === true ? undefined : request;
  }

  /** Until all of its lanes have returned or wait at a barrier. */
  #runSubgroup(first: number): void {
    const end = Math.min(first + this.#subgroupSize, this.#runs.length);
    for (;;) {
      const site = this.#nextSite(first, end);
      if (!site) return;
      const lanes: number[] = [];
      const requests: SyncRequest[] = [];
      for (let i = first; i < end; i++) {
        const wait = this.#waits[i];
        if (wait?.[0] !== site) continue;
        lanes.push(i - first);
        requests.push(wait);
      }
      const { op, token } = site;
      if (lanes.length < end - first)
        this.#tracer.find(
          'nonuniform_subgroup_operation',
          token,
          `${lanes.length} of ${end - first} lanes execute ${op}`,
        );
      const results = subgroupOperation({
        op,
        lanes,
        subgroupSize: this.#subgroupSize,
        requests,
        // A matrix belongs to the subgroup; its accesses count as those of the first lane.
        onAccess: (memory, address, bytes, writes) => {
          const invocation = this.#invocations[first + (lanes[0] as number)] as Invocation;
          this.#tracer.access(memory, address, bytes, token, invocation, writes);
        },
        onInactive: () =>
          this.#tracer.find('inactive_lane', token, `${op} reads a lane that does not execute it`),
      });
      for (let n = 0; n < lanes.length; n++) this.#resume(first + (lanes[n] as number), results[n]);
    }
  }

  /** Where lanes differ, those at the first place in the source go on. Undefined when no lane waits for the others of its subgroup. */
  #nextSite(first: number, end: number): SyncSite | undefined {
    let next: SyncSite | undefined;
    for (let i = first; i < end; i++) {
      const site = this.#waits[i]?.[0];
      if (site && !site.isBarrier && (next === undefined || site.token < next.token)) next = site;
    }
    return next;
  }
}
