import { inspectModel, type ModelFacts, type ModelFiles, openModelFile } from '../../engine/index.ts';
import { nodePlatform } from '../../platform/node.ts';
import { messageOf } from '../start-error.ts';
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
    return { problem: messageOf(error) };
  }
}

/** As `inspect`, for what lies at a path or an address. */
export async function inspectAt(world: World, location: string): Promise<Inspected> {
  try {
    return await inspect(await platformOf(world).modelFiles(location));
  } catch (error) {
    return { problem: messageOf(error) };
  }
}
