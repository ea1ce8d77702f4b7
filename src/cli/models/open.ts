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

/** The facts of a model's headers, or why they cannot be read. */
export type Inspected = { readonly facts: ModelFacts } | { readonly problem: string };

export const platformOf = ({ env }: Pick<World, 'env'>) =>
  nodePlatform(undefined, { token: env['HF_TOKEN'], endpoint: env['HF_ENDPOINT'] });

/** Reads a model's headers only. */
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

/** `inspectFiles` for the model at a path or URL. */
export async function inspectAt(world: World, location: string): Promise<Inspected> {
  try {
    return await inspect(await platformOf(world).modelFiles(location));
  } catch (error) {
    return { problem: faultOf(error) };
  }
}

/** Message of an error in the model or its location. Any other error is a bug and is rethrown. */
export function faultOf(error: unknown): string {
  const faults = [ModelFileError, EngineError, PullError];
  if (error instanceof Error && (faults.some((kind) => error instanceof kind) || 'syscall' in error))
    return error.message;
  throw error;
}
