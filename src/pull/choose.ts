import { few } from '../engine/index.ts';
import { PullError } from './errors.ts';
import { folderModel } from './folder-model.ts';
import { type GgufModel, ggufModels } from './gguf-models.ts';

export interface RemoteFile {
  /** Below the repository's root, with slashes. */
  readonly path: string;
  readonly sizeBytes: number;
  readonly checksum: Checksum;
}

/** `sha256` of the content, or git's own SHA-1 of a blob for files that are not in large-file storage. */
export interface Checksum {
  readonly kind: 'sha256' | 'git-sha1';
  /** Lower-case hex. */
  readonly hex: string;
}

/** A model of a repository: all files that it takes. */
export interface ChosenModel {
  /** The file that stands for it, a GGUF; undefined when the folder does. */
  readonly entry: string | undefined;
  readonly files: readonly RemoteFile[];
}

/**
 * What the engine reads, best first: the smallest loss at the smallest size, so 4 bits of well-rounded weights before
 * all bits at four times the size, and those before 3 bits, which answers show.
 */
const preferred = (
  'Q8_0 Q6_K Q6_K_L Q5_K_M Q5_K_L Q5_K_S Q5_K Q5_1 Q5_0 Q4_K_M Q4_K_L Q4_K_S Q4_K IQ4_NL IQ4_XS Q4_1 Q4_0 ' +
  'MXFP4 MXFP4_MOE F16 BF16 F32 Q3_K_L Q3_K_M Q3_K_S Q3_K Q2_K Q2_K_S'
).split(' ');

/**
 * The model to download or to read: of GGUF files the one that is wanted or the best, with all parts when it is split;
 * in a repository without them what makes up the folder.
 * @param wanted a path, a file name or a quantisation
 * @throws PullError `not_found` or `no_choice`, listing what there is
 */
export const chooseModel = (files: readonly RemoteFile[], wanted: string | undefined): ChosenModel => {
  const models = ggufModels(files);
  if (models.length === 0) return chooseFolder(files, wanted);
  const chosen = wanted === undefined ? chooseBest(models) : chooseWanted(models, wanted);
  const { missing } = chosen;
  if (missing.length > 0) {
    throw new PullError(
      'not_found',
      `the repository holds ${chosen.files.length} parts of ${chosen.path} only; missing: ${few(missing)}`,
    );
  }
  return { entry: chosen.path, files: chosen.files };
};

const chooseFolder = (files: readonly RemoteFile[], wanted: string | undefined): ChosenModel => {
  const folder = folderModel(files);
  if (folder && (wanted === undefined || folder.some(({ path }) => path === wanted)))
    return { entry: undefined, files: folder };
  if (folder) {
    throw new PullError(
      'not_found',
      `the repository holds no GGUF file '${wanted}', but a folder of safetensors or MLC shards: name it without a file ` +
        `(--quantize makes it smaller when it is loaded)`,
    );
  }
  const torch = files.some(({ path }) => /\.(bin|pt|pth|ckpt)$/i.test(path));
  throw new PullError(
    'no_choice',
    `the repository holds no GGUF file, no config.json with .safetensors files and no MLC shards${torch ? ', only PyTorch checkpoints' : ''}; ` +
      'look for one whose name ends in -GGUF',
  );
};

const chooseWanted = (models: readonly GgufModel[], wanted: string): GgufModel => {
  const fits: readonly ((model: GgufModel) => boolean)[] = [
    ({ files }) => files.some(({ path }) => path === wanted),
    ({ files }) => files.some(({ path }) => path.endsWith(`/${wanted}`)),
    ({ quantization }) => quantization === wanted.toUpperCase(),
  ];
  for (const fit of fits) {
    const [first, ...others] = models.filter(fit);
    if (first && others.length === 0) return first;
    if (first)
      throw new PullError(
        'no_choice',
        `several files fit '${wanted}', name one: ${list([first, ...others])}`,
      );
  }
  throw new PullError('not_found', `no GGUF file '${wanted}' in the repository; there are: ${list(models)}`);
};

const chooseBest = (models: readonly GgufModel[]): GgufModel => {
  for (const wanted of preferred) {
    const [first, ...others] = models.filter(({ quantization }) => quantization === wanted);
    if (first && others.length === 0) return first;
    if (first)
      throw new PullError(
        'no_choice',
        `several files are ${wanted}, name one as REPO:FILE: ${list([first, ...others])}`,
      );
  }
  const [only, ...others] = models;
  if (only && others.length === 0 && only.quantization === undefined) return only;
  throw new PullError(
    'no_choice',
    `no file of a type that can be read (${preferred.join(', ')}); there are: ${list(models)}`,
  );
};

const list = (models: readonly GgufModel[]): string =>
  models
    .map(({ path, files }) => {
      const bytes = files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
      const parts = files.length > 1 ? ` in ${files.length} parts` : '';
      return `${path} (${(bytes / 2 ** 20).toFixed(0)} MiB${parts})`;
    })
    .join(', ');
