import { PullError } from './errors.ts';

export interface RemoteFile {
  /** Below the repository's root, with slashes. */
  readonly path: string;
  readonly sizeBytes: number;
  readonly checksum: Checksum;
}

/** `sha256` of the content, or git's own SHA-1 of a blob for files that are not in large-file storage. */
interface Checksum {
  readonly kind: 'sha256' | 'git-sha1';
  /** Lower-case hex. */
  readonly hex: string;
}

/** What the engine reads, best first: the smallest loss at the smallest size. */
const preferred = ['Q8_0', 'Q4_0', 'F16', 'BF16', 'F32'];

/** The quantisation that a file's name tells, as `Q8_0` or `Q4_K_M`; undefined when it tells none. */
const quantizationOf = (path: string): string | undefined => {
  const name = path.slice(path.lastIndexOf('/') + 1).toUpperCase();
  const found = /(?:^|[-._])(BF16|F16|FP16|F32|FP32|I?Q\d(?:_\w+?)?|TQ\d_\d|MXFP4\w*?)(?=[-.]|$)/.exec(
    name,
  )?.[1];
  return found?.replace(/^FP/, 'F');
};

/**
 * The file to download.
 * @param wanted a path, a file name or a quantisation; without it the best one that the engine reads
 * @throws PullError `not_found` or `no_choice`, listing what there is
 */
export const chooseFile = (files: readonly RemoteFile[], wanted: string | undefined): RemoteFile => {
  const models = files.filter(({ path }) => /\.gguf$/i.test(path));
  if (models.length === 0) {
    throw new PullError(
      'no_choice',
      'the repository holds no GGUF file; look for one whose name ends in -GGUF',
    );
  }
  return wanted === undefined ? chooseBest(models) : chooseWanted(models, wanted);
};

const chooseWanted = (models: readonly RemoteFile[], wanted: string): RemoteFile => {
  const fits: readonly ((path: string) => boolean)[] = [
    (path) => path === wanted,
    (path) => path.endsWith(`/${wanted}`),
    (path) => quantizationOf(path) === wanted.toUpperCase(),
  ];
  for (const fit of fits) {
    const [first, ...others] = models.filter(({ path }) => fit(path));
    if (first && others.length === 0) return first;
    if (first)
      throw new PullError(
        'no_choice',
        `several files fit '${wanted}', name one: ${list([first, ...others])}`,
      );
  }
  throw new PullError('not_found', `no GGUF file '${wanted}' in the repository; there are: ${list(models)}`);
};

const chooseBest = (models: readonly RemoteFile[]): RemoteFile => {
  // Image projectors and parts of split models are no models by themselves.
  const whole = models.filter(({ path }) => !/mmproj|-\d{5}-of-\d{5}/i.test(path));
  for (const quantization of preferred) {
    const [first, ...others] = whole.filter(({ path }) => quantizationOf(path) === quantization);
    if (first && others.length === 0) return first;
    if (first)
      throw new PullError(
        'no_choice',
        `several files are ${quantization}, name one as REPO:FILE: ${list([first, ...others])}`,
      );
  }
  const [only, ...others] = whole;
  if (only && others.length === 0 && quantizationOf(only.path) === undefined) return only;
  throw new PullError(
    'no_choice',
    `no whole file of a type that can be read (${preferred.join(', ')}); there are: ${list(models)}`,
  );
};

const list = (files: readonly RemoteFile[]): string =>
  files.map(({ path, sizeBytes }) => `${path} (${(sizeBytes / 2 ** 20).toFixed(0)} MiB)`).join(', ');
