import { partNames, splitNameOf } from '../engine/index.ts';
import type { RemoteFile } from './choose.ts';

/** A GGUF file, or all parts of a split one. */
export interface GgufModel {
  /** Of the file, or of the first part. */
  readonly path: string;
  readonly files: readonly RemoteFile[];
  /** Parts that the repository does not hold. */
  readonly missing: readonly string[];
  /** As the name tells it: `Q8_0`, `Q4_K_M`. */
  readonly quantization: string | undefined;
}

/** Image projectors are no models by themselves, and importance matrices are none at all. */
const noModel = /mmproj|imatrix/i;

export const ggufModels = (files: readonly RemoteFile[]): GgufModel[] => {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const models = new Map<string, GgufModel>();
  for (const file of files) {
    if (!/\.gguf$/i.test(file.path) || noModel.test(file.path)) continue;
    const name = splitNameOf(file.path);
    const key = name ? `${name.model} ${name.count}` : file.path;
    if (models.has(key)) continue;
    const paths = name ? partNames(name) : [file.path];
    const [path = file.path] = paths;
    const parts = paths.map((one) => byPath.get(one));
    models.set(key, {
      path,
      files: parts.filter((part) => part !== undefined),
      missing: paths.filter((_, index) => parts[index] === undefined),
      quantization: quantizationOf(path),
    });
  }
  return [...models.values()];
};

/** The quantisation that a file's name tells; undefined when it tells none. */
const quantizationOf = (path: string): string | undefined => {
  const name = path.slice(path.lastIndexOf('/') + 1).toUpperCase();
  const found = /(?:^|[-._])(BF16|F16|FP16|F32|FP32|I?Q\d(?:_\w+?)?|TQ\d_\d|MXFP4\w*?)(?=[-.]|$)/.exec(
    name,
  )?.[1];
  return found?.replace(/^FP/, 'F');
};
