import type { z } from 'zod';
import type { Json } from '../../util/json.ts';
import { nearestWord } from '../../words/nearest.ts';
import type { Fault } from '../errors.ts';
import { type AgentSpec, agentSpec } from '../shapes/agent-spec.ts';
import { findGrantFaults } from './grant-faults.ts';

export type ParsedAgentSpec =
  | { readonly spec: AgentSpec; readonly faults?: undefined }
  | { readonly spec?: undefined; readonly faults: readonly Fault[] };

/**
 * Validates an agent and fills in defaults; unknown members are kept.
 * @param tools names of existing tools; without them, tool names are not checked
 */
export function parseAgentSpec(input: Json, tools?: readonly string[]): ParsedAgentSpec {
  const { success, data, error } = agentSpec.safeParse(input, { reportInput: false });
  const schemaFaults = success ? [] : error.issues.map(toFault);
  // Lists that the schema refuses are not checked again; the others are.
  const grants = pickWellFormedGrants(success ? data.grants : input['grants']);
  const faults = [
    ...schemaFaults,
    ...findGrantFaults(grants),
    ...(tools ? findToolFaults(grants, tools) : []),
  ];
  if (!success || faults.length > 0) return { faults };
  return { spec: withDefaults(input, data) };
}

const grantLists = ['tools', 'read', 'write', 'network', 'auto_approve'] as const;

function pickWellFormedGrants(grants: unknown) {
  if (typeof grants !== 'object' || grants === null) return {};
  const isTextList = (list: unknown): list is string[] =>
    Array.isArray(list) && list.every((entry) => typeof entry === 'string' && entry !== '');
  const lists = grantLists.map((name) => [name, (grants as Json)[name]] as const);
  return Object.fromEntries(lists.filter(([, list]) => isTextList(list))) as {
    [Name in (typeof grantLists)[number]]?: string[];
  };
}

function findToolFaults(grants: ReturnType<typeof pickWellFormedGrants>, names: readonly string[]): Fault[] {
  return (['tools', 'auto_approve'] as const).flatMap((list) =>
    (grants[list] ?? []).flatMap((name, index) => {
      if (name.includes('*') || names.includes(name)) return [];
      const near = nearestWord(name, names);
      const hint = near === undefined ? 'GET /agent/v1/tools lists them' : `did you mean '${near}'?`;
      const message = `there is no tool '${name.slice(0, 80)}'; ${hint}`;
      return [{ path: `grants.${list}.${index}`, message }];
    }),
  );
}

/** The input in its own order, with the defaults of the schema. */
function withDefaults(input: Json, spec: AgentSpec): AgentSpec {
  const nestedMember = (name: 'grants' | 'sampling' | 'limits') =>
    spec[name] === undefined ? {} : { [name]: { ...(input[name] as Json | undefined), ...spec[name] } };
  return {
    ...input,
    ...spec,
    ...nestedMember('grants'),
    ...nestedMember('sampling'),
    ...nestedMember('limits'),
  };
}

const toFault = ({ path, message }: z.core.$ZodIssue): Fault => ({
  path: path.map(String).join('.'),
  message,
});
