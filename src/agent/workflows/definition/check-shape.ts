import type { z } from 'zod';
import { isRecord } from '../../../util/json.ts';
import { nameForm, nameRule } from '../../shapes/common.ts';
import { agentLimits, agentSampling, grants } from '../../shapes/agent-spec.ts';
import { type Draft, entries, gateShapes } from './draft.ts';
import * as shapes from './ensemble.ts';
import type { Findings } from './findings.ts';
import { nearMiss } from './near-miss.ts';
import type { Path } from './toml-document.ts';

/** Reports the issues of the zod schema: missing members, wrong types and values out of bounds. */
export function reportIssues(value: unknown, issues: readonly z.core.$ZodIssue[], findings: Findings): void {
  for (const { path, message, code } of issues) {
    const at = path.map((part) => (typeof part === 'symbol' ? String(part) : part));
    const name = at.at(-1);
    const isMissing = memberOf(value, at) === undefined;
    if (isMissing) findings.error('missing_key', at, `'${String(name)}' is missing: ${message}`);
    else findings.error(codeOf(code, at, message), at, message);
  }
}

function codeOf(code: string, path: Path, message: string): string {
  if (message.includes('paths of the interface')) return 'reserved_name';
  if (code === 'invalid_type' || code === 'invalid_union') return 'wrong_type';
  const last = path.at(-1);
  return last === 'name' || last === 'id' ? 'bad_name' : 'bad_value';
}

function memberOf(value: unknown, path: Path): unknown {
  let at: unknown = value;
  for (const name of path)
    at = at instanceof Object ? (at as Record<string | number, unknown>)[name] : undefined;
  return at;
}

/** Checks names that are keys of tables. */
export function checkNames({ inputs, agents }: Draft, findings: Findings): void {
  for (const name of inputs.keys())
    if (!shapes.word.safeParse(name).success)
      findings.error('bad_name', ['inputs', name], `the name '${name.slice(0, 80)}': ${shapes.wordRule}`, {
        at: 'key',
      });
  for (const [name, agent] of agents) {
    const path = ['agents', name];
    if (!nameForm.test(name))
      findings.error('bad_name', path, `the name '${name.slice(0, 80)}': ${nameRule}`, { at: 'key' });
    if (agent?.name !== undefined && agent.name !== name)
      findings.error('bad_name', [...path, 'name'], `must be '${name}' as its table says, or left out`);
  }
}

type Shape = Readonly<Record<string, unknown>>;

/** Warns about unknown keys, which are kept but may be typing errors. */
export function checkUnknownKeys(draft: Draft, findings: Findings): void {
  const { value } = draft.document;
  const check = (table: unknown, shape: Shape | undefined, path: Path) => {
    const known = Object.keys(shape ?? {});
    for (const [key] of shape === undefined ? [] : entries(table)) {
      if (known.includes(key)) continue;
      const message = `unknown key '${key.slice(0, 80)}'${nearMiss(key, known)}`;
      findings.warn('unknown_key', [...path, key], message, { at: 'key' });
    }
  };
  const file = shapes.ensembleFile.shape;
  check(value, file, []);
  check(value['ensemble'], shapes.header.shape, ['ensemble']);
  const entry = isRecord(value['entry']) ? value['entry'] : {};
  const entryShapes = { schedule: shapes.schedule.shape, armed: shapes.armed.shape };
  if (entry['kind'] === 'schedule' || entry['kind'] === 'armed')
    check(entry, entryShapes[entry['kind']], ['entry']);
  check(value['workspace'], shapes.workspace.shape, ['workspace']);
  check(value['output'], shapes.output.shape, ['output']);
  for (const [name, one] of entries(value['inputs'])) check(one, shapes.input.shape, ['inputs', name]);
  for (const [name, one] of entries(value['agents'])) {
    const path = ['agents', name];
    check(one, shapes.inlineAgent.shape, path);
    const agent = isRecord(one) ? one : {};
    check(agent['grants'], grants.shape, [...path, 'grants']);
    check(agent['sampling'], agentSampling.shape, [...path, 'sampling']);
    check(agent['limits'], agentLimits.shape, [...path, 'limits']);
  }
  for (const [index, one] of (Array.isArray(value['steps']) ? value['steps'] : []).entries()) {
    const path = ['steps', index];
    check(one, shapes.step.shape, path);
    const step: Record<string, unknown> = isRecord(one) ? one : {};
    check(step['retry'], shapes.retry.shape, [...path, 'retry']);
    check(step['limits'], agentLimits.shape, [...path, 'limits']);
    const gate = isRecord(step['gate']) ? step['gate'] : {};
    check(gate, gateShapes.get(String(gate['kind'])), [...path, 'gate']);
  }
}
