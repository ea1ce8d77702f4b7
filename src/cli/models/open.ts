import {
  EngineError,
  inspectModel,
  type ModelFacts,
  ModelFileError,
  type ModelFiles,
  openModelFile,
} from '../../engine/index.ts';
import { nodePlatform } from '../../platform/node.ts';
import { PullError } from '../../pull/errors.ts';
import type { World } from '../world.ts';

/** What a model is, or why it cannot be told. */
export type Inspected = { readonly facts: ModelFacts } | { readonly problem: string };

export const platformOf = ({ env }: Pick<World, 'env'>) =>
  nodePlatform(undefined, { token: env['HF_TOKEN'], endpoint: env['HF_ENDPOINT'] });

/** Reads headers only. */
export async function inspect(files: ModelFiles): Promise<Inspected> {
  try {
    const file = await openModelFile(files);
    try {
      return { facts: await inspectModel(file) };
    } finally {
      await file.close();
    }
  } catch (error) {
    return { problem: faultOf(error) };
  }
}

/** As `inspect`, for what lies at a path or an address. */
export async function inspectAt(world: World, location: string): Promise<Inspected> {
  try {
    return await inspect(await platformOf(world).modelFiles(location));
  } catch (error) {
    return { problem: faultOf(error) };
  }
}

/** What is wrong with the model or the place it lies at. Any other error is a fault of ours and goes on. */
export function faultOf(error: unknown): string {
  const faults = [ModelFileError, EngineError, PullError];
  if (error instanceof Error && (faults.some((kind) => error instanceof kind) || 'syscall' in error))
    return error.message;
  throw error;
}
