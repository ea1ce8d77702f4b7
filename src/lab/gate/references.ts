/** What the cases of one registration should give, computed once however many builds are compared with it. */
import type { Gpu } from '../../engine/gpu/device.ts';
import type { PipelineCache } from '../../engine/gpu/pipelines.ts';
import type { LabOp } from '../ops/index.ts';
import type { ExpectedOutput, ParityCase } from '../types.ts';
import { prepareBuiltin, type PreparedBuiltin } from './builtin.ts';
import { wordsOf } from './elements.ts';
import type { KnownKernel } from './known-kernel.ts';

/** What the child keeps from job to job. */
export interface Bench {
  readonly gpu: Gpu;
  /** Of the built-in kernels. */
  readonly pipelines: PipelineCache;
  readonly known: KnownKernel;
}

export interface Reference {
  readonly expected: Readonly<Record<string, ExpectedOutput>>;
  /** 32-bit words of bindings of role `out`. */
  readonly outWords: Readonly<Record<string, number>>;
}

export class References {
  readonly #bench: Bench;
  readonly #op: LabOp;
  readonly #known = new Map<ParityCase, Reference>();
  readonly #builtins = new Map<ParityCase, Promise<Record<string, Uint32Array<ArrayBuffer>> | undefined>>();

  constructor(bench: Bench, op: LabOp) {
    this.#bench = bench;
    this.#op = op;
  }

  /** Asks the oracle. */
  of(one: ParityCase): Reference {
    const known = this.#known.get(one);
    if (known) return known;
    const expected = this.#op.oracle(one);
    const outWords = Object.fromEntries(
      this.#op.contract.bindings.flatMap(({ name, role, dtype = 'f32' }) =>
        role === 'out' ? [[name, wordsOf(dtype, expected[name]?.values.length ?? 0)]] : [],
      ),
    );
    const reference = { expected, outWords };
    this.#known.set(one, reference);
    return reference;
  }

  /** Words of the writable bindings after the built-in ran; undefined where the engine has none for the case. */
  builtin(one: ParityCase): Promise<Record<string, Uint32Array<ArrayBuffer>> | undefined> {
    const known = this.#builtins.get(one) ?? this.#run(one);
    this.#builtins.set(one, known);
    return known;
  }

  /** The built-in bound to the case, to be timed. */
  async prepare(one: ParityCase): Promise<PreparedBuiltin | undefined> {
    const { gpu, pipelines } = this.#bench;
    const steps = this.#op.builtin(one, gpu.caps);
    if (!steps) return undefined;
    const { contract } = this.#op;
    return await prepareBuiltin(pipelines, gpu.device, {
      contract,
      one,
      steps,
      outWords: this.of(one).outWords,
    });
  }

  async #run(one: ParityCase): Promise<Record<string, Uint32Array<ArrayBuffer>> | undefined> {
    const prepared = await this.prepare(one);
    try {
      return await prepared?.run();
    } finally {
      prepared?.destroy();
    }
  }
}
