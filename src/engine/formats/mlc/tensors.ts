import { decodeFloats, isFloatType } from '../float-bytes.ts';
import type { Config } from '../hugging-face/config.ts';
import type { Family } from '../hugging-face/family.ts';
import { isIgnored, type Presented, refuseTensors, targetOf } from '../hugging-face/present.ts';
import { constantRows, pairedFrom, pairedRows, type ReadRows } from '../hugging-face/tensor-rows.ts';
import { bytesOfRow, rowsOf } from '../rows.ts';
import { type Part, partsOf } from './names.ts';
import type { Stored } from './stored.ts';

/**
 * Converts stored matrices to tensors with GGUF names; a fused matrix becomes several tensors.
 * @param problems texts about invalid arrays, which this throws together with its own
 * @throws ModelFileError `unsupported_tensors` or `bad_tensors`, naming the tensors. A tensor must not be dropped
 *   silently: the model would compute something else
 */
export const presentStored = (
  all: readonly Stored[],
  { name, family, config }: { name: string; family: Family; config: Config },
  problems: string[],
): Map<string, Presented> => {
  const layers = config.number('num_hidden_layers', 'n_layer');
  const find = (tensor: string) => targetOf(tensor, family, layers);
  const tensors = new Map<string, Presented>();
  const unknown: string[] = [];
  for (const stored of all) {
    const total = countOf(stored);
    const parts = partsOf(stored.base, config, (part) => find(`${part}.weight`) !== undefined);
    const taken = parts.reduce((sum, { rows = total }) => sum + rows, 0);
    if (taken !== total) {
      problems.push(
        `'${stored.base}' has ${total} rows, but ${parts.map((part) => part.name).join(', ')} need ${taken}`,
      );
      continue;
    }
    for (const part of parts) {
      const full = `${part.name}.${stored.kind}`;
      if (isIgnored(full, family, config)) continue;
      const target = find(full);
      if (!target) unknown.push(`'${full}'`);
      else {
        const heads = target.pairUp && config.number(...target.pairUp);
        tensors.set(target.name, presentPart(stored, { part, name: target.name, heads }));
      }
    }
  }
  refuseTensors('unsupported_tensors', name, unknown, {
    what: `unknown for the architecture ${family.architecture}; the model would be wrong without them`,
  });
  refuseTensors('bad_tensors', name, problems, { what: 'the weights do not match mlc-chat-config.json' });
  for (const [vector, values] of family.vectors?.(config) ?? []) {
    const info = { name: vector, type: 'F32', shape: [values.length], offset: 0 } as const;
    tensors.set(vector, { info: { ...info, sizeBytes: values.byteLength }, read: constantRows(values) });
  }
  return tensors;
};

/** Rows of a matrix, or elements of a vector. */
const countOf = ({ shape }: Stored): number => (shape.length === 1 ? (shape[0] ?? 0) : rowsOf({ shape }));

const presentPart = (
  stored: Stored,
  { part, name, heads }: { part: Part; name: string; heads: number | undefined },
): Presented => {
  const { first, rows = countOf(stored) } = part;
  // MLC's Gemma norms already include the 1 that Hugging Face checkpoints leave out.
  if (stored.shape.length === 1) return presentVector(stored, { name, first, count: rows, heads });
  const shape = [rows, stored.shape[1] ?? 0];
  const rowBytes = bytesOfRow({ type: stored.type, shape });
  const below: ReadRows = (firstRow, count, into) => stored.read(first + firstRow, count, into);
  return {
    info: { name, type: stored.type, shape, offset: first * rowBytes, sizeBytes: rows * rowBytes },
    read: heads === undefined ? below : pairedRows(below, { rowBytes, headRows: rows / heads }),
  };
};

const presentVector = (
  stored: Stored,
  { name, first, count, heads }: { name: string; first: number; count: number; heads: number | undefined },
): Presented => {
  const { type } = stored;
  if (!isFloatType(type)) throw new RangeError(`${name}: a vector must not be quantized`);
  return {
    info: { name, type: 'F32', shape: [count], offset: first, sizeBytes: 4 * count },
    async read(_firstRow, rows, into) {
      const all = new Float32Array(stored.shape[0] ?? 0);
      decodeFloats(type, await stored.read(0, 1), all);
      const values = all.slice(first, first + rows * count);
      const own =
        heads === undefined ? values : values.map((_, at) => values[pairedFrom(at, count / heads)] ?? 0);
      return constantRows(own)(0, 1, into);
    },
  };
};
