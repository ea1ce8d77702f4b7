import { summarizeList } from '../engine/index.ts';
import { PullError } from './errors.ts';
import { folderModel } from './folder-model.ts';
import { type GgufModel, ggufModels } from './gguf-models.ts';

export interface RemoteFile {
  /** Path relative to the repository's root, with slashes. */
  readonly path: string;
  readonly sizeBytes: number;
  readonly checksum: Checksum;
}

/** `sha256`: of the content. `git-sha1`: SHA-1 of the Git blob, for files that are not in large-file storage. */
export interface Checksum {
  readonly kind: 'sha256' | 'git-sha1';
  /** Lower-case hex. */
  readonly hex: string;
}

/** A model in a repository with all its files. */
export interface ChosenModel {
  /** The GGUF file to load. Undefined: the whole folder is the model. */
  readonly entry: string | undefined;
  readonly files: readonly RemoteFile[];
}

/**
 * Quantizations that the engine reads, in order of preference: small loss at small size. Types of 4 bits precede 16-
 * and 32-bit weights, which are four times as large; those precede types of 3 bits and less, whose loss is visible in
 * answers.
 */
const quantizationPreference = (
  'Q8_0 Q6_K Q6_K_L Q5_K_M Q5_K_L Q5_K_S Q5_K Q5_1 Q5_0 Q4_K_M Q4_K_L Q4_K_S Q4_K IQ4_NL IQ4_XS Q4_1 Q4_0 ' +
  'MXFP4 MXFP4_MOE F16 BF16 F32 Q3_K_L Q3_K_M Q3_K_S Q3_K Q2_K Q2_K_S'
).split(' ');

/**
 * Chooses the model to download or to read. In a repository with GGUF files: the requested one or the most preferred
 * one, with all parts if it is split. In other repositories: the files of the model folder.
 * @param wanted path, file name or quantization
 * @throws PullError `not_found` or `no_choice`, which lists the available files
 */
export const chooseModel = (files: readonly RemoteFile[], requested: string | undefined): ChosenModel => {
  const models = ggufModels(files);
  if (models.length === 0) return chooseFolder(files, requested);
  const chosen = requested === undefined ? chooseBest(models) : chooseRequested(models, requested);
  const { missing } = chosen;
  if (missing.length > 0) {
    throw new PullError(
      'not_found',
      `the repository has only ${chosen.files.length} parts of ${chosen.path}; missing: ${summarizeList(missing)}`,
    );
  }
  return { entry: chosen.path, files: chosen.files };
};

const chooseFolder = (files: readonly RemoteFile[], requested: string | undefined): ChosenModel => {
  const folder = folderModel(files);
  if (folder && (requested === undefined || folder.some(({ path }) => path === requested)))
    return { entry: undefined, files: folder };
  if (folder) {
    throw new PullError(
      'not_found',
      `the repository has no GGUF file '${requested}', only a folder of safetensors files or MLC shards: name the repository without a file ` +
        `(--quantize makes the model smaller when it is loaded)`,
    );
  }
  const torch = files.some(({ path }) => /\.(bin|pt|pth|ckpt)$/i.test(path));
  throw new PullError(
    'no_choice',
    `the repository has no GGUF file, no config.json with .safetensors files and no MLC shards${torch ? ', only PyTorch checkpoints' : ''}; ` +
      'look for a repository whose name ends in -GGUF',
  );
};

const chooseRequested = (models: readonly GgufModel[], requested: string): GgufModel => {
  const matchers: readonly ((model: GgufModel) => boolean)[] = [
    ({ files }) => files.some(({ path }) => path === requested),
    ({ files }) => files.some(({ path }) => path.endsWith(`/${requested}`)),
    ({ quantization }) => quantization === requested.toUpperCase(),
  ];
  for (const matcher of matchers) {
    const [first, ...others] = models.filter(matcher);
    if (first && others.length === 0) return first;
    if (first)
      throw new PullError(
        'no_choice',
        `several files match '${requested}'; name one: ${describeModels([first, ...others])}`,
      );
  }
  throw new PullError(
    'not_found',
    `the repository has no GGUF file '${requested}'; it has: ${describeModels(models)}`,
  );
};

const chooseBest = (models: readonly GgufModel[]): GgufModel => {
  for (const requested of quantizationPreference) {
    const [first, ...others] = models.filter(({ quantization }) => quantization === requested);
    if (first && others.length === 0) return first;
    if (first)
      throw new PullError(
        'no_choice',
        `several files have the type ${requested}; name one as REPO:FILE: ${describeModels([first, ...others])}`,
      );
  }
  const [only, ...others] = models;
  if (only && others.length === 0 && only.quantization === undefined) return only;
  throw new PullError(
    'no_choice',
    `the repository has no file of a supported type (${quantizationPreference.join(', ')}); it has: ${describeModels(models)}`,
  );
};

const describeModels = (models: readonly GgufModel[]): string =>
  models
    .map(({ path, files }) => {
      const bytes = files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
      const parts = files.length > 1 ? ` in ${files.length} parts` : '';
      return `${path} (${(bytes / 2 ** 20).toFixed(0)} MiB${parts})`;
    })
    .join(', ');
