import type { z } from 'zod';
import type { Json } from '../../util/json.ts';
import { nearest } from '../../words/nearest.ts';
import type { Fault } from '../errors.ts';
import { type AgentSpec, agentSpec } from '../shapes/agent-spec.ts';
import { grantFaults } from './grant-faults.ts';

export type Checked =
  | { readonly spec: AgentSpec; readonly faults?: undefined }
  | { readonly spec?: undefined; readonly faults: readonly Fault[] };

/**
 * Validates an agent and fills in defaults; unknown members are kept.
 * @param tools names of existing tools; without them, tool names are not checked
 */
export function checkSpec(sent: Json, tools?: readonly string[]): Checked {
  const { success, data, error } = agentSpec.safeParse(sent, { reportInput: false });
  const shape = success ? [] : error.issues.map(asFault);
  // Lists that the schema refuses are not checked again; the others are.
  const grants = wellFormedGrants(success ? data.grants : sent['grants']);
  const faults = [...shape, ...grantFaults(grants), ...(tools ? toolFaults(grants, tools) : [])];
  if (!success || faults.length > 0) return { faults };
  return { spec: filled(sent, data) };
}

const grantLists = ['tools', 'read', 'write', 'network', 'auto_approve'] as const;

function wellFormedGrants(grants: unknown) {
  if (typeof grants !== 'object' || grants === null) return {};
  const isTexts = (list: unknown): list is string[] =>
    Array.isArray(list) && list.every((entry) => typeof entry === 'string' && entry !== '');
  const lists = grantLists.map((name) => [name, (grants as Json)[name]] as const);
  return Object.fromEntries(lists.filter(([, list]) => isTexts(list))) as {
    [Name in (typeof grantLists)[number]]?: string[];
  };
}

function toolFaults(grants: ReturnType<typeof wellFormedGrants>, names: readonly string[]): Fault[] {
  return (['tools', 'auto_approve'] as const).flatMap((list) =>
    (grants[list] ?? []).flatMap((name, index) => {
      if (name.includes('*') || names.includes(name)) return [];
      const near = nearest(name, names);
      const hint = near === undefined ? 'GET /agent/v1/tools lists them' : `did you mean '${near}'?`;
      const message = `there is no tool '${name.slice(0, 80)}'; ${hint}`;
      return [{ path: `grants.${list}.${index}`, message }];
    }),
  );
}

/** The input in its own order, with the defaults of the schema. */
function filled(sent: Json, spec: AgentSpec): AgentSpec {
  const inner = (name: 'grants' | 'sampling' | 'limits') =>
    spec[name] === undefined ? {} : { [name]: { ...(sent[name] as Json | undefined), ...spec[name] } };
  return { ...sent, ...spec, ...inner('grants'), ...inner('sampling'), ...inner('limits') };
}

const asFault = ({ path, message }: z.core.$ZodIssue): Fault => ({
  path: path.map(String).join('.'),
  message,
});
