/** Expected results of the cases of one registration, computed once for all builds that are compared with them. */
import type { WgslSources } from '../../../kernels/assemble.ts';
import type { Gpu } from '../../engine/gpu/device.ts';
import type { PipelineCache } from '../../engine/gpu/pipelines.ts';
import type { LabOp } from '../ops/index.ts';
import type { ExpectedOutput, ParityCase } from '../types.ts';
import { prepareBuiltin, type PreparedBuiltin } from './builtin.ts';
import { wordCountOf } from './elements.ts';
import type { CalibrationKernel } from './calibration-kernel.ts';

/** GPU resources that the child keeps between jobs. */
export interface GateDevice {
  readonly gpu: Gpu;
  /** Pipelines of the built-in kernels. */
  readonly pipelines: PipelineCache;
  readonly calibration: CalibrationKernel;
  /** Sources of the built-in kernels. */
  readonly wgsl: WgslSources;
}

export interface Reference {
  readonly expected: Readonly<Record<string, ExpectedOutput>>;
  /** Sizes of the bindings of role `out`, in 32-bit words, by name. */
  readonly outWords: Readonly<Record<string, number>>;
}

export class ReferenceCache {
  readonly #gateDevice: GateDevice;
  readonly #op: LabOp;
  readonly #references = new Map<ParityCase, Reference>();
  readonly #builtinResults = new Map<
    ParityCase,
    Promise<Record<string, Uint32Array<ArrayBuffer>> | undefined>
  >();

  constructor(gateDevice: GateDevice, op: LabOp) {
    this.#gateDevice = gateDevice;
    this.#op = op;
  }

  /** Expected result of a case, from the oracle. */
  getReference(parityCase: ParityCase): Reference {
    const known = this.#references.get(parityCase);
    if (known) return known;
    const expected = this.#op.oracle(parityCase);
    const outWords = Object.fromEntries(
      this.#op.contract.bindings.flatMap(({ name, role, dtype = 'f32' }) =>
        role === 'out' ? [[name, wordCountOf(dtype, expected[name]?.values.length ?? 0)]] : [],
      ),
    );
    const reference = { expected, outWords };
    this.#references.set(parityCase, reference);
    return reference;
  }

  /** Words of the writable bindings after the built-in kernel ran; undefined when the engine has none for the case. */
  runBuiltinOnce(parityCase: ParityCase): Promise<Record<string, Uint32Array<ArrayBuffer>> | undefined> {
    const known = this.#builtinResults.get(parityCase) ?? this.#run(parityCase);
    this.#builtinResults.set(parityCase, known);
    return known;
  }

  /** Binds the built-in kernel to the buffers of a case, for timing. */
  async bindBuiltin(parityCase: ParityCase): Promise<PreparedBuiltin | undefined> {
    const { gpu, pipelines } = this.#gateDevice;
    const steps = this.#op.builtin(parityCase, gpu.caps);
    if (!steps) return undefined;
    const { contract } = this.#op;
    return await prepareBuiltin(pipelines, gpu.device, {
      contract,
      parityCase,
      steps,
      outWords: this.getReference(parityCase).outWords,
    });
  }

  async #run(parityCase: ParityCase): Promise<Record<string, Uint32Array<ArrayBuffer>> | undefined> {
    const prepared = await this.bindBuiltin(parityCase);
    try {
      return await prepared?.run();
    } finally {
      prepared?.destroy();
    }
  }
}
