import { summarizeList } from '../../util/summarize-list.ts';
import type { ByteSource } from '../platform.ts';
import { type Metadata, ModelFileError, type TensorInfo } from './model-file.ts';
import { listPartNames, type SplitName, parseSplitName } from './split-name.ts';
import { mapInBatches } from './map-in-batches.ts';

/** One GGUF file: a whole model, or one part of a split model. */
export interface GgufPart {
  readonly source: ByteSource;
  readonly metadata: Metadata;
  /** Tensor offsets are relative to this file. */
  readonly tensors: ReadonlyMap<string, TensorInfo>;
}

type GgufParts = readonly [GgufPart, ...GgufPart[]];

/**
 * Opens all parts of the split model that a file belongs to and checks that they belong together.
 * @param entryPart the file that is already open; its name is `entry`
 * @param open opens another part by name; undefined when the file does not exist
 * @returns all parts in order; only `entryPart` when the model is not split
 * @throws ModelFileError `split`
 */
export const openSplitSet = async (
  entryPart: GgufPart,
  entry: string,
  open: (name: string) => Promise<GgufPart | undefined>,
): Promise<GgufParts> => {
  // Files that were merged from parts have split.count 0.
  const count = entryPart.metadata.get('split.count') || 1;
  const name = parseSplitName(entry);
  if (count === 1 && (name === undefined || name.count === 1)) return [entryPart];
  if (typeof count !== 'number') {
    throw splitError(entryPart, `split.count is ${String(count)}, not a number; the file is corrupt`);
  }
  if (name === undefined) {
    const part = Number(entryPart.metadata.get('split.no')) + 1;
    throw splitError(
      entryPart,
      `this is part ${part} of ${String(count)} of a split model, and the other parts cannot be found by this file name; ` +
        `use the original file names, such as model-00001-of-${String(count).padStart(5, '0')}.gguf`,
    );
  }
  // Check first: a wrong file name may claim any number of parts, and each would be opened.
  assertPartNumbers(entryPart, name);
  const names = listPartNames(name);
  const openedParts = await mapInBatches(names, async (one) => (one === entry ? entryPart : open(one)));
  const parts = openedParts.filter((part) => part !== undefined);
  const missing = names.filter((_, index) => openedParts[index] === undefined);
  const [first, ...others] = parts;
  if (missing.length > 0 || !first) {
    throw splitError(
      entryPart,
      `${missing.length} of the ${names.length} parts of this split model are missing: ${summarizeList(missing)}; ` +
        'put all parts into one folder, or pull the model again',
    );
  }
  parts.forEach((part, index) => assertPartNumbers(part, { ...name, part: index + 1 }));
  const set: GgufParts = [first, ...others];
  assertSameModel(set);
  return set;
};

/** Checks the part number and count in a file's metadata against those in its name. */
const assertPartNumbers = (part: GgufPart, { part: number, count }: SplitName): void => {
  const declared = { no: part.metadata.get('split.no'), count: part.metadata.get('split.count') };
  if (declared.no === number - 1 && declared.count === count) return;
  const declaredText =
    declared.count === undefined
      ? 'its metadata says that it is a whole file'
      : `its metadata says part ${Number(declared.no) + 1} of ${String(declared.count)}`;
  throw splitError(
    part,
    `the file name says part ${number} of ${count} of a split model, but ${declaredText}; it was renamed or belongs to another model. ` +
      'Download the files again and keep their names',
  );
};

const assertSameModel = (parts: GgufParts): void => {
  const [first] = parts;
  const problems: string[] = [];
  const total = first.metadata.get('split.tensors.count');
  const owners = new Map<string, GgufPart>();
  for (const part of parts) {
    for (const key of ['split.tensors.count', 'general.architecture', 'general.name']) {
      const declared = part.metadata.get(key);
      // Parts after the first usually have only the split.* keys.
      if (declared !== undefined && declared !== first.metadata.get(key)) {
        problems.push(
          `${part.source.name} has ${key} ${String(declared)}, but the first part has ${String(first.metadata.get(key) ?? 'none')}`,
        );
      }
    }
    for (const tensor of part.tensors.keys()) {
      const owner = owners.get(tensor);
      if (owner) problems.push(`tensor '${tensor}' is in ${owner.source.name} and in ${part.source.name}`);
      owners.set(tensor, part);
    }
  }
  if (total !== undefined && total !== owners.size) {
    problems.push(`the parts have ${owners.size} tensors in total, but the first part says ${String(total)}`);
  }
  if (problems.length === 0) return;
  throw splitError(
    first,
    `the parts do not belong to one model: ${summarizeList(problems, '; ')}; download all parts of the model again`,
  );
};

const splitError = (part: GgufPart, message: string): ModelFileError =>
  new ModelFileError('split', `${part.source.name}: ${message}`);
