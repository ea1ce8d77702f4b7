/** How many bytes of a live buffer a binding uses in one step. */
import type { ContractBinding } from '../../../kernels/contracts.ts';
import { quantSizeBytes, scaleSizeBytes, weightFormat } from '../../../kernels/formats.ts';
import type { LabDispatch } from '../../engine/index.ts';
import { compileExpression } from '../expression.ts';
import type { TensorData } from '../types.ts';

/** Dims of a step, in addition to those of a dispatch. */
export interface StepExtent {
  readonly tokens: number;
  /** Length of the sequence after the step. */
  readonly positions: number;
  /** Number of cache pages in use; their indices are below it. */
  readonly pages: number;
  readonly slots: number;
}

/** Number of bytes, from the start of the binding, that the step reads or writes. */
export function extentOf(lab: LabDispatch, binding: ContractBinding, step: StepExtent): number {
  // A model without biases binds a small placeholder buffer.
  if (binding.name === 'bias' && lab.params['has_bias'] === 0) return 16;
  const values = { ...lab.dims, ...lab.params, ...step, positions: step.positions };
  const sizes = binding.shape.map((one) => compileExpression(one).evaluate(values));
  const elements = sizes.reduce((count, one) => count * one, 1);
  switch (binding.dtype) {
    case 'weights': {
      const [rows = 0, blocks = 0] = sizes;
      const format = weightFormat(lab.format ?? '');
      if (binding.name === 'quants') return quantSizeBytes(format, { rows, blocks });
      return scaleSizeBytes(format, { rows, blocks }) || 16;
    }
    case 'f16':
      return elements * 2;
    default:
      return elements * 4;
  }
}

export const tensorOf = (binding: ContractBinding, contents: ArrayBuffer): TensorData =>
  binding.dtype === 'f32' ? new Float32Array(contents) : wholeWords(contents);

function wholeWords(contents: ArrayBuffer): Uint32Array<ArrayBuffer> {
  if (contents.byteLength % 4 === 0) return new Uint32Array(contents);
  const padded = new Uint8Array(Math.ceil(contents.byteLength / 4) * 4);
  padded.set(new Uint8Array(contents));
  return new Uint32Array(padded.buffer);
}
