import { few } from '../few.ts';
import type { ByteSource } from '../platform.ts';
import { type Metadata, ModelFileError, type TensorInfo } from './model-file.ts';
import { partNames, type SplitName, splitNameOf } from './split-name.ts';
import { inWaves } from './waves.ts';

/** One GGUF file: a whole model, or one part of a split model. */
export interface GgufPart {
  readonly source: ByteSource;
  readonly metadata: Metadata;
  /** Tensor offsets are relative to this file. */
  readonly tensors: ReadonlyMap<string, TensorInfo>;
}

type Parts = readonly [GgufPart, ...GgufPart[]];

/**
 * Opens all parts of the split model that a file belongs to and checks that they belong together.
 * @param entryPart the file that is already open; its name is `entry`
 * @param open opens another part by name; undefined when the file does not exist
 * @returns all parts in order; only `entryPart` when the model is not split
 * @throws ModelFileError `split`
 */
export const wholeSet = async (
  named: GgufPart,
  entry: string,
  open: (name: string) => Promise<GgufPart | undefined>,
): Promise<Parts> => {
  // Files that were merged from parts have split.count 0.
  const count = named.metadata.get('split.count') || 1;
  const name = splitNameOf(entry);
  if (count === 1 && (name === undefined || name.count === 1)) return [named];
  if (typeof count !== 'number') {
    throw fail(named, `split.count is ${String(count)}, not a number; the file is corrupt`);
  }
  if (name === undefined) {
    const part = Number(named.metadata.get('split.no')) + 1;
    throw fail(
      named,
      `this is part ${part} of ${String(count)} of a split model, and the other parts cannot be found by this file name; ` +
        `use the original file names, such as model-00001-of-${String(count).padStart(5, '0')}.gguf`,
    );
  }
  // Check first: a wrong file name may claim any number of parts, and each would be opened.
  checkNumbers(named, name);
  const names = partNames(name);
  const found = await inWaves(names, async (one) => (one === entry ? named : open(one)));
  const parts = found.filter((part) => part !== undefined);
  const missing = names.filter((_, index) => found[index] === undefined);
  const [first, ...others] = parts;
  if (missing.length > 0 || !first) {
    throw fail(
      named,
      `${missing.length} of the ${names.length} parts of this split model are missing: ${few(missing)}; ` +
        'put all parts into one folder, or pull the model again',
    );
  }
  parts.forEach((part, index) => checkNumbers(part, { ...name, part: index + 1 }));
  const set: Parts = [first, ...others];
  checkOneModel(set);
  return set;
};

/** Checks the part number and count in a file's metadata against those in its name. */
const checkNumbers = (part: GgufPart, { part: number, count }: SplitName): void => {
  const says = { no: part.metadata.get('split.no'), count: part.metadata.get('split.count') };
  if (says.no === number - 1 && says.count === count) return;
  const words =
    says.count === undefined
      ? 'its metadata says that it is a whole file'
      : `its metadata says part ${Number(says.no) + 1} of ${String(says.count)}`;
  throw fail(
    part,
    `the file name says part ${number} of ${count} of a split model, but ${words}; it was renamed or belongs to another model. ` +
      'Download the files again and keep their names',
  );
};

const checkOneModel = (parts: Parts): void => {
  const [first] = parts;
  const problems: string[] = [];
  const total = first.metadata.get('split.tensors.count');
  const owners = new Map<string, GgufPart>();
  for (const part of parts) {
    for (const key of ['split.tensors.count', 'general.architecture', 'general.name']) {
      const says = part.metadata.get(key);
      // Parts after the first usually have only the split.* keys.
      if (says !== undefined && says !== first.metadata.get(key)) {
        problems.push(
          `${part.source.name} has ${key} ${String(says)}, but the first part has ${String(first.metadata.get(key) ?? 'none')}`,
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
  throw fail(
    first,
    `the parts do not belong to one model: ${few(problems, '; ')}; download all parts of the model again`,
  );
};

const fail = (part: GgufPart, message: string): ModelFileError =>
  new ModelFileError('split', `${part.source.name}: ${message}`);
