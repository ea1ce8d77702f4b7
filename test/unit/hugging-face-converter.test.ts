/** A folder opened directly equals the GGUF file that llama.cpp's converter makes of it. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { decodeFloats, isFloatType } from '../../src/engine/formats/float-bytes.ts';
import { openGguf } from '../../src/engine/formats/gguf.ts';
import { openHuggingFace } from '../../src/engine/formats/hugging-face/index.ts';
import type { ModelFile } from '../../src/engine/formats/model-file.ts';
import { bytesOfRow, rowsOf } from '../../src/engine/formats/rows.ts';
import { memoryFiles } from '../support/byte-source.ts';
import { fixtureNames } from '../support/fixture-names.ts';
import { folderContents } from '../support/folder-contents.ts';

const root = fileURLToPath(new URL('../fixtures/architectures/', import.meta.url));

const openBoth = async (name: string, folder = 'hf') => {
  const contents = folderContents(`${root}${name}`);
  const below = Object.entries(contents).filter(([path]) => path.startsWith(`${folder}/`));
  const own = Object.fromEntries(below.map(([path, bytes]) => [path.slice(folder.length + 1), bytes]));
  return {
    own: await openHuggingFace(memoryFiles(own)),
    converted: await openGguf(memoryFiles(contents), 'model.gguf'),
  };
};

/** All values of a tensor, or its bytes if it is quantized, read in pieces of an odd number of rows. */
const valuesOf = async (file: ModelFile, name: string): Promise<Float32Array | Uint8Array> => {
  const tensor = file.tensors.get(name)!;
  const { type, shape } = tensor;
  const float = isFloatType(type);
  const columns = float ? shape.at(-1)! : bytesOfRow(tensor);
  const values = new (float ? Float32Array : Uint8Array)(rowsOf(tensor) * columns);
  for (let row = 0; row < rowsOf(tensor); row += 7) {
    const rows = Math.min(7, rowsOf(tensor) - row);
    const into = values.subarray(row * columns, (row + rows) * columns);
    if (into instanceof Uint8Array) await file.readRows(tensor, row, rows, into);
    else if (float) decodeFloats(type, await file.readRows(tensor, row, rows), into);
  }
  return values;
};

/** The hyperparameters. Tokenizer keys are compared in other tests, by what they encode. */
const numbersOf = ({ metadata }: ModelFile) => {
  const architecture = String(metadata.get('general.architecture'));
  const kept = [...metadata].filter(([key]) => key.startsWith(`${architecture}.`));
  return Object.fromEntries(kept.sort(([a], [b]) => (a < b ? -1 : 1)));
};

/** Labels of a classification head, which embedding models do not have. */
const leftOut = ['bert.classifier.output_labels'];

describe.each(fixtureNames)('%s', (name) => {
  const folders = ['hf', 'hf-sharded'].filter((folder) => existsSync(`${root}${name}/${folder}`));
  it.each(folders)('in %s has the same hyperparameters', async (folder) => {
    const { own, converted } = await openBoth(name, folder);
    const expected = numbersOf(converted);
    for (const key of leftOut) delete expected[key];
    expect(own.metadata.get('general.architecture')).toBe(converted.metadata.get('general.architecture'));
    expect(numbersOf(own)).toEqual(expected);
  });

  it.each(folders)('in %s has the same tensors, value for value', async (folder) => {
    const { own, converted } = await openBoth(name, folder);
    const shapes = (file: ModelFile) =>
      Object.fromEntries([...file.tensors.values()].map((tensor) => [tensor.name, tensor.shape]));
    expect(shapes(own)).toEqual(shapes(converted));
    for (const tensor of converted.tensors.keys()) {
      const [mine, theirs] = [await valuesOf(own, tensor), await valuesOf(converted, tensor)];
      expect({ tensor, difference: greatestDifference(mine, theirs) }).toEqual({ tensor, difference: 0 });
    }
  });

  it('keeps the type of matrices and converts vectors to F32', async () => {
    const { own, converted } = await openBoth(name);
    for (const [tensor, { type }] of converted.tensors)
      expect([tensor, own.tensors.get(tensor)?.type]).toEqual([tensor, type]);
  });

  it('has the same chat template', async () => {
    const { own, converted } = await openBoth(name);
    expect(own.metadata.get('tokenizer.chat_template')).toBe(
      converted.metadata.get('tokenizer.chat_template'),
    );
  });
});

const greatestDifference = (a: ArrayLike<number>, b: ArrayLike<number>): number => {
  let greatest = a.length === b.length ? 0 : Number.POSITIVE_INFINITY;
  for (let i = 0; i < a.length; i++) greatest = Math.max(greatest, Math.abs(a[i]! - b[i]!));
  return greatest;
};
