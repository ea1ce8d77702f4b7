import { isRecord, type Json } from '../../../util/json.ts';
import type { ByteSource, ModelFiles } from '../../platform.ts';
import { assertSafePath } from '../safe-path.ts';
import { ModelFileError } from '../model-file.ts';
import type { ModelFamily } from './family.ts';
import { readJsonFile, readJsonObjectFile } from '../json-file.ts';
import type { MetadataWriter } from './metadata-writer.ts';
import { type LocatedTensor, readWeightFile } from './weight-files.ts';

/** Values of `pooling_type`: how the token vectors of a text are combined to one. */
const poolingTypes = { mean: 1, cls: 2, lasttoken: 3 } as const;

/** Boolean keys of older sentence-transformers versions, which have no `pooling_mode`. */
const poolingModeFlags: Readonly<Record<string, string>> = {
  pooling_mode_mean_tokens: 'mean',
  pooling_mode_cls_token: 'cls',
  pooling_mode_lasttoken: 'lasttoken',
  pooling_mode_max_tokens: 'max',
  pooling_mode_mean_sqrt_len_tokens: 'mean_sqrt_len_tokens',
  pooling_mode_weightedmean_tokens: 'weightedmean',
};

interface SentenceModules {
  /** False for a model that computes no embeddings. */
  readonly hasPooling: boolean;
  /** Weights of the dense layers after the pooling, named like `dense_2.weight`. */
  readonly denseTensors: ReadonlyMap<string, LocatedTensor>;
}

/**
 * Reads modules.json: the modules that sentence-transformers applies after the model (pooling, dense layers,
 * normalization).
 * @throws ModelFileError `unsupported_pooling` or `corrupt`
 */
export const readSentenceModules = async (
  files: ModelFiles,
  { family, writer, opened }: { family: ModelFamily; writer: MetadataWriter; opened: ByteSource[] },
): Promise<SentenceModules> => {
  const denseTensors = new Map<string, LocatedTensor>();
  let hasPooling = false;
  for (const { kind, path } of await listModules(files)) {
    if (kind === 'Pooling') {
      writer.set('pooling_type', await readPoolingType(files, path));
      hasPooling = true;
    } else if (kind === 'Dense' && 'dense_2' in family.tensors) {
      const layer = `dense_${denseTensors.size + 2}`;
      const { weight, shape } = await readDenseLayer(files, path, opened);
      denseTensors.set(`${layer}.weight`, { ...weight, name: `${layer}.weight` });
      writer.set(`${layer}_feat_in`, shape[1]);
      writer.set(`${layer}_feat_out`, shape[0]);
    } else if (kind !== 'Transformer' && kind !== 'Normalize') {
      throw createUnsupportedError(
        files,
        `modules.json: the module ${kind} (supported: Transformer, Pooling, Normalize)`,
      );
    }
  }
  if (denseTensors.size > 2)
    throw createUnsupportedError(files, `modules.json: ${denseTensors.size} dense layers (supported: 2)`);
  return { hasPooling, denseTensors };
};

const createUnsupportedError = (files: ModelFiles, what: string): ModelFileError =>
  new ModelFileError('unsupported_pooling', `${files.name}: ${what} is not supported`);

const createCorruptError = (files: ModelFiles, what: string): ModelFileError =>
  new ModelFileError('corrupt', `${files.name}: ${what}`);

const listModules = async (files: ModelFiles): Promise<{ kind: string; path: string }[]> => {
  const modules = await readJsonFile(files, 'modules.json');
  if (modules === undefined) return [];
  if (!Array.isArray(modules)) throw createCorruptError(files, 'modules.json must hold an array of modules');
  return modules.map((module: unknown) => {
    const { type, path } = isRecord(module) ? module : {};
    if (typeof type !== 'string' || typeof path !== 'string') {
      throw createCorruptError(files, 'modules.json has a module without a type or a path');
    }
    if (path !== '') assertSafePath(files.name, path);
    return { kind: type.split('.').at(-1) ?? type, path };
  });
};

/** Reads the required config.json of a module. */
const readModuleConfig = async (files: ModelFiles, path: string): Promise<Json> => {
  const config = await readJsonObjectFile(files, `${path}/config.json`);
  if (config) return config;
  throw new ModelFileError('not_found', `${files.name}: there is no file '${path}/config.json'`);
};

const readPoolingType = async (files: ModelFiles, path: string): Promise<number> => {
  const config = await readModuleConfig(files, path);
  const enabledFlags = Object.keys(poolingModeFlags).filter((key) => config[key] === true);
  const declaredMode = config.pooling_mode;
  const modes =
    enabledFlags.length > 0
      ? enabledFlags.map((key) => poolingModeFlags[key])
      : Array.isArray(declaredMode)
        ? declaredMode
        : [declaredMode];
  const [mode] = modes as unknown[];
  if (modes.length === 1 && typeof mode === 'string' && Object.hasOwn(poolingTypes, mode)) {
    return poolingTypes[mode as keyof typeof poolingTypes];
  }
  throw createUnsupportedError(
    files,
    `${path}/config.json: pooling by ${modes.map(String).join(' and ')} (supported: one of ${Object.keys(poolingTypes).join(', ')})`,
  );
};

const readDenseLayer = async (
  files: ModelFiles,
  path: string,
  opened: ByteSource[],
): Promise<{ weight: LocatedTensor; shape: readonly number[] }> => {
  const { activation_function: activation } = await readModuleConfig(files, path);
  if (typeof activation === 'string' && !activation.endsWith('.Identity')) {
    throw createUnsupportedError(
      files,
      `${path}/config.json: a dense layer with ${activation} (supported: Identity)`,
    );
  }
  const tensors = await readWeightFile(files, `${path}/model.safetensors`, opened);
  const weight = tensors.get('linear.weight');
  if (!weight || tensors.size !== 1) {
    const names = [...tensors.keys()].join(', ');
    throw createUnsupportedError(
      files,
      `${path}/model.safetensors: a dense layer with the tensors ${names} (supported: linear.weight)`,
    );
  }
  return { weight, shape: weight.shape };
};
