import { isRecord, type Json } from '../../../util/json.ts';
import type { ByteSource, ModelFiles } from '../../platform.ts';
import { checkFileName } from '../file-name.ts';
import { ModelFileError } from '../model-file.ts';
import type { Family } from './family.ts';
import { readJson, readObject } from '../json-file.ts';
import type { Keys } from './keys.ts';
import { type LocatedTensor, readWeights } from './weight-files.ts';

/** Values of `pooling_type`: how the token vectors of a text are combined to one. */
const poolings = { mean: 1, cls: 2, lasttoken: 3 } as const;

/** Boolean keys of older sentence-transformers versions, which have no `pooling_mode`. */
const flags: Readonly<Record<string, string>> = {
  pooling_mode_mean_tokens: 'mean',
  pooling_mode_cls_token: 'cls',
  pooling_mode_lasttoken: 'lasttoken',
  pooling_mode_max_tokens: 'max',
  pooling_mode_mean_sqrt_len_tokens: 'mean_sqrt_len_tokens',
  pooling_mode_weightedmean_tokens: 'weightedmean',
};

interface Modules {
  /** False for a model that computes no embeddings. */
  readonly pools: boolean;
  /** Weights of the dense layers after the pooling, named like `dense_2.weight`. */
  readonly dense: ReadonlyMap<string, LocatedTensor>;
}

/**
 * Reads modules.json: the modules that sentence-transformers applies after the model (pooling, dense layers,
 * normalization).
 * @throws ModelFileError `unsupported_pooling` or `corrupt`
 */
export const readModules = async (
  files: ModelFiles,
  { family, keys, opened }: { family: Family; keys: Keys; opened: ByteSource[] },
): Promise<Modules> => {
  const dense = new Map<string, LocatedTensor>();
  let pools = false;
  for (const { kind, path } of await modulesOf(files)) {
    if (kind === 'Pooling') {
      keys.set('pooling_type', await poolingOf(files, path));
      pools = true;
    } else if (kind === 'Dense' && 'dense_2' in family.tensors) {
      const layer = `dense_${dense.size + 2}`;
      const { weight, shape } = await denseOf(files, path, opened);
      dense.set(`${layer}.weight`, { ...weight, name: `${layer}.weight` });
      keys.set(`${layer}_feat_in`, shape[1]);
      keys.set(`${layer}_feat_out`, shape[0]);
    } else if (kind !== 'Transformer' && kind !== 'Normalize') {
      throw unsupported(
        files,
        `modules.json: the module ${kind} (supported: Transformer, Pooling, Normalize)`,
      );
    }
  }
  if (dense.size > 2) throw unsupported(files, `modules.json: ${dense.size} dense layers (supported: 2)`);
  return { pools, dense };
};

const unsupported = (files: ModelFiles, what: string): ModelFileError =>
  new ModelFileError('unsupported_pooling', `${files.name}: ${what} is not supported`);

const corrupt = (files: ModelFiles, what: string): ModelFileError =>
  new ModelFileError('corrupt', `${files.name}: ${what}`);

const modulesOf = async (files: ModelFiles): Promise<{ kind: string; path: string }[]> => {
  const modules = await readJson(files, 'modules.json');
  if (modules === undefined) return [];
  if (!Array.isArray(modules)) throw corrupt(files, 'modules.json must hold an array of modules');
  return modules.map((module: unknown) => {
    const { type, path } = isRecord(module) ? module : {};
    if (typeof type !== 'string' || typeof path !== 'string') {
      throw corrupt(files, 'modules.json has a module without a type or a path');
    }
    if (path !== '') checkFileName(files.name, path);
    return { kind: type.split('.').at(-1) ?? type, path };
  });
};

/** Reads the required config.json of a module. */
const configOf = async (files: ModelFiles, path: string): Promise<Json> => {
  const config = await readObject(files, `${path}/config.json`);
  if (config) return config;
  throw new ModelFileError('not_found', `${files.name}: there is no file '${path}/config.json'`);
};

const poolingOf = async (files: ModelFiles, path: string): Promise<number> => {
  const config = await configOf(files, path);
  const flagged = Object.keys(flags).filter((key) => config[key] === true);
  const named = config.pooling_mode;
  const modes =
    flagged.length > 0 ? flagged.map((key) => flags[key]) : Array.isArray(named) ? named : [named];
  const [mode] = modes as unknown[];
  if (modes.length === 1 && typeof mode === 'string' && Object.hasOwn(poolings, mode)) {
    return poolings[mode as keyof typeof poolings];
  }
  throw unsupported(
    files,
    `${path}/config.json: pooling by ${modes.map(String).join(' and ')} (supported: one of ${Object.keys(poolings).join(', ')})`,
  );
};

const denseOf = async (
  files: ModelFiles,
  path: string,
  opened: ByteSource[],
): Promise<{ weight: LocatedTensor; shape: readonly number[] }> => {
  const { activation_function: activation } = await configOf(files, path);
  if (typeof activation === 'string' && !activation.endsWith('.Identity')) {
    throw unsupported(files, `${path}/config.json: a dense layer with ${activation} (supported: Identity)`);
  }
  const tensors = await readWeights(files, `${path}/model.safetensors`, opened);
  const weight = tensors.get('linear.weight');
  if (!weight || tensors.size !== 1) {
    const names = [...tensors.keys()].join(', ');
    throw unsupported(
      files,
      `${path}/model.safetensors: a dense layer with the tensors ${names} (supported: linear.weight)`,
    );
  }
  return { weight, shape: weight.shape };
};
