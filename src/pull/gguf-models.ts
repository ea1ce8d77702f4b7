import { isGgufModelPath, listPartNames, type SplitName, parseSplitName } from '../engine/index.ts';
import type { RemoteFile } from './choose.ts';

/** A GGUF file, or all parts of a split one. */
export interface GgufModel {
  /** Path of the file, or of the first part. */
  readonly path: string;
  readonly files: readonly RemoteFile[];
  /** Parts that are missing in the repository. */
  readonly missing: readonly string[];
  /** Quantization in the file name, such as `Q8_0` or `Q4_K_M`. */
  readonly quantization: string | undefined;
}

export const ggufModels = (files: readonly RemoteFile[]): GgufModel[] => {
  const models = new Map<string, { name: SplitName | undefined; files: Map<string, RemoteFile> }>();
  for (const file of files) {
    if (!isGgufModelPath(file.path)) continue;
    const name = parseSplitName(file.path);
    const key = name ? `${name.model} ${name.count}` : file.path;
    const model = models.get(key) ?? { name, files: new Map<string, RemoteFile>() };
    models.set(key, model);
    model.files.set(file.path, file);
  }
  return Array.from(models.values(), (model) => {
    const [path = '', ...others] = [...model.files.keys()].sort();
    return {
      path,
      files: [path, ...others].flatMap((one) => model.files.get(one) ?? []),
      // Computed on demand: a name may claim 99999 parts.
      get missing() {
        const { name } = model;
        return name ? listPartNames(name).filter((one) => !model.files.has(one)) : [];
      },
      quantization: quantizationOf(path),
    };
  });
};

/** The quantization in a file name; undefined if there is none. */
const quantizationOf = (path: string): string | undefined => {
  const name = path.slice(path.lastIndexOf('/') + 1).toUpperCase();
  const found = /(?:^|[-._])(BF16|F16|FP16|F32|FP32|I?Q\d(?:_\w+?)?|TQ\d_\d|MXFP4\w*?)(?=[-.]|$)/.exec(
    name,
  )?.[1];
  return found?.replace(/^FP/, 'F');
};
