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
import type { CliContext } from '../cli-context.ts';

/** The facts of a model's headers, or why they cannot be read. */
export type InspectionResult = { readonly facts: ModelFacts } | { readonly problem: string };

export const createPlatform = ({ env }: Pick<CliContext, 'env'>) =>
  nodePlatform(undefined, { token: env['HF_TOKEN'], endpoint: env['HF_ENDPOINT'] });

/** Reads a model's headers only. */
export async function inspectFiles(files: ModelFiles): Promise<InspectionResult> {
  try {
    const file = await openModelFile(files);
    try {
      return { facts: await inspectModel(file) };
    } finally {
      await file.close();
    }
  } catch (error) {
    return { problem: describeModelError(error) };
  }
}

/** `inspectFiles` for the model at a path or URL. */
export async function inspectLocation(cli: CliContext, location: string): Promise<InspectionResult> {
  try {
    return await inspectFiles(await createPlatform(cli).modelFiles(location));
  } catch (error) {
    return { problem: describeModelError(error) };
  }
}

/** Message of an error in the model or its location. Any other error is a bug and is rethrown. */
export function describeModelError(error: unknown): string {
  const faults = [ModelFileError, EngineError, PullError];
  if (error instanceof Error && (faults.some((kind) => error instanceof kind) || 'syscall' in error))
    return error.message;
  throw error;
}
