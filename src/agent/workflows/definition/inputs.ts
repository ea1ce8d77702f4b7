import { isAbsolute, normalize } from 'node:path';
import { isRecord } from '../../../util/json.ts';
import { AgentError, type Fault } from '../../errors.ts';
import type { AgentSpec } from '../../shapes/agent-spec.ts';
import type { Ensemble, Input } from './ensemble.ts';
import { suggestName } from './near-miss.ts';

const typeChecks: { readonly [Type in Input['type']]: (value: unknown) => boolean } = {
  string: (value) => typeof value === 'string',
  number: (value) => typeof value === 'number' && Number.isFinite(value),
  integer: (value) => Number.isSafeInteger(value),
  boolean: (value) => typeof value === 'boolean',
  array: (value) => Array.isArray(value),
  object: isRecord,
};

/** Why a value is invalid for an input; undefined when it is valid. */
export function findInputFault(
  { type, enum: allowed }: Pick<Input, 'type' | 'enum'>,
  value: unknown,
): string | undefined {
  if (!typeChecks[type](value)) return `expected a value of the type ${type}`;
  const json = JSON.stringify(value);
  if (allowed === undefined || allowed.some((one) => JSON.stringify(one) === json)) return undefined;
  return `expected one of ${JSON.stringify(allowed).slice(0, 300)}`;
}

/**
 * Resolves the inputs of a run: the given ones, and defaults. Optional inputs without a value stay absent.
 * @throws AgentError `invalid_inputs` with every violation, under `inputs.NAME`
 */
export function resolveInputs(
  { inputs, workspace }: Pick<Ensemble, 'inputs' | 'workspace'>,
  givenInputs: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const faults: Fault[] = [];
  const addFault = (name: string, message: string) => faults.push({ path: `inputs.${name}`, message });
  for (const name of Object.keys(givenInputs))
    if (!Object.hasOwn(inputs, name))
      addFault(name, `the workflow declares no input of this name${suggestName(name, Object.keys(inputs))}`);
  const resolved: Record<string, unknown> = {};
  for (const [name, input] of Object.entries(inputs)) {
    const value = Object.hasOwn(givenInputs, name) ? givenInputs[name] : input.default;
    const fault = value === undefined ? undefined : findInputFault(input, value);
    if (value !== undefined) resolved[name] = value;
    else if (input.required)
      addFault(name, `is required${input.description ? `: ${input.description}` : ''}`);
    if (fault !== undefined) addFault(name, fault);
  }
  const folder = workspace && resolved[workspace.input];
  if (workspace && typeof folder === 'string' && !(isAbsolute(folder) && !folder.includes('\0')))
    addFault(workspace.input, 'names the folder to work in: expected an absolute path');
  if (faults.length > 0) {
    const summary = faults.map(({ path, message }) => `${path}: ${message}`).join('; ');
    throw new AgentError('invalid', 'invalid_inputs', `The inputs are invalid: ${summary}.`, { faults });
  }
  return resolved;
}

/** The workspace folder of a run; undefined when its workflow has none. */
export function resolveWorkspace(
  { workspace }: Pick<Ensemble, 'workspace'>,
  inputs: Readonly<Record<string, unknown>>,
): string | undefined {
  const folder = workspace && inputs[workspace.input];
  return typeof folder === 'string' ? normalizePath(folder) : undefined;
}

/** Resolves `.` and `./...` in the grants of an inline agent. Without a workspace these grant nothing. */
export function resolveGrants(agent: AgentSpec, workspace: string | undefined): AgentSpec {
  const absolute = (paths: readonly string[]) =>
    paths.flatMap((path) => {
      if (!isRelative(path)) return [path];
      return workspace === undefined ? [] : [normalizePath(`${workspace}/${path}`)];
    });
  const { grants } = agent;
  return { ...agent, grants: { ...grants, read: absolute(grants.read), write: absolute(grants.write) } };
}

/** Whether a granted path is relative to the workspace. */
export const isRelative = (path: string) => path === '.' || path.startsWith('./');
const normalizePath = (path: string) => {
  const normalized = normalize(path);
  return normalized.length > 1 && normalized.endsWith('/') ? normalized.slice(0, -1) : normalized;
};
