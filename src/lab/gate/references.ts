/** Expected results of the cases of one registration, computed once for all builds that are compared with them. */
import type { Gpu } from '../../engine/gpu/device.ts';
import type { PipelineCache } from '../../engine/gpu/pipelines.ts';
import type { LabOp } from '../ops/index.ts';
import type { ExpectedOutput, ParityCase } from '../types.ts';
import { prepareBuiltin, type PreparedBuiltin } from './builtin.ts';
import { wordsOf } from './elements.ts';
import type { KnownKernel } from './known-kernel.ts';

/** GPU resources that the child keeps between jobs. */
export interface Bench {
  readonly gpu: Gpu;
  /** Pipelines of the built-in kernels. */
  readonly pipelines: PipelineCache;
  readonly known: KnownKernel;
}

export interface Reference {
  readonly expected: Readonly<Record<string, ExpectedOutput>>;
  /** Sizes of the bindings of role `out`, in 32-bit words, by name. */
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

  /** Expected result of a case, from the oracle. */
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

  /** Words of the writable bindings after the built-in kernel ran; undefined when the engine has none for the case. */
  builtin(one: ParityCase): Promise<Record<string, Uint32Array<ArrayBuffer>> | undefined> {
    const known = this.#builtins.get(one) ?? this.#run(one);
    this.#builtins.set(one, known);
    return known;
  }

  /** Binds the built-in kernel to the buffers of a case, for timing. */
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
