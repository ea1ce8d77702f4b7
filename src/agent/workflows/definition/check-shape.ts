import type { z } from 'zod';
import { isRecord } from '../../../util/json.ts';
import { namePattern, nameRule } from '../../shapes/common.ts';
import { agentLimits, agentSampling, grants } from '../../shapes/agent-spec.ts';
import { type Draft, tableEntries, gateSchemas } from './draft.ts';
import * as shapes from './ensemble.ts';
import type { Findings } from './findings.ts';
import { suggestName } from './near-miss.ts';
import type { Path } from './toml-document.ts';

/** Reports the issues of the zod schema: missing members, wrong types and values out of bounds. */
export function reportIssues(value: unknown, issues: readonly z.core.$ZodIssue[], findings: Findings): void {
  for (const { path, message, code } of issues) {
    const at = path.map((part) => (typeof part === 'symbol' ? String(part) : part));
    const name = at.at(-1);
    const isMissing = readMember(value, at) === undefined;
    if (isMissing) findings.error('missing_key', at, `'${String(name)}' is missing: ${message}`);
    else findings.error(findingCode(code, at, message), at, message);
  }
}

function findingCode(code: string, path: Path, message: string): string {
  if (message.includes('paths of the interface')) return 'reserved_name';
  if (code === 'invalid_type' || code === 'invalid_union') return 'wrong_type';
  const last = path.at(-1);
  return last === 'name' || last === 'id' ? 'bad_name' : 'bad_value';
}

function readMember(value: unknown, path: Path): unknown {
  let at: unknown = value;
  for (const name of path)
    at = at instanceof Object ? (at as Record<string | number, unknown>)[name] : undefined;
  return at;
}

/** Checks names that are keys of tables. */
export function checkNames({ inputs, agents }: Draft, findings: Findings): void {
  for (const name of inputs.keys())
    if (!shapes.identifier.safeParse(name).success)
      findings.error(
        'bad_name',
        ['inputs', name],
        `the name '${name.slice(0, 80)}': ${shapes.identifierRule}`,
        {
          at: 'key',
        },
      );
  for (const [name, agent] of agents) {
    const path = ['agents', name];
    if (!namePattern.test(name))
      findings.error('bad_name', path, `the name '${name.slice(0, 80)}': ${nameRule}`, { at: 'key' });
    if (agent?.name !== undefined && agent.name !== name)
      findings.error('bad_name', [...path, 'name'], `must be '${name}' as its table says, or left out`);
  }
}

type SchemaShape = Readonly<Record<string, unknown>>;

/** Warns about unknown keys, which are kept but may be typing errors. */
export function checkUnknownKeys(draft: Draft, findings: Findings): void {
  const { value } = draft.document;
  const checkTable = (table: unknown, shape: SchemaShape | undefined, path: Path) => {
    const known = Object.keys(shape ?? {});
    for (const [key] of shape === undefined ? [] : tableEntries(table)) {
      if (known.includes(key)) continue;
      const message = `unknown key '${key.slice(0, 80)}'${suggestName(key, known)}`;
      findings.warn('unknown_key', [...path, key], message, { at: 'key' });
    }
  };
  const fileShape = shapes.ensembleFile.shape;
  checkTable(value, fileShape, []);
  checkTable(value['ensemble'], shapes.header.shape, ['ensemble']);
  const entry = isRecord(value['entry']) ? value['entry'] : {};
  const entryShapes = { schedule: shapes.schedule.shape, armed: shapes.armed.shape };
  if (entry['kind'] === 'schedule' || entry['kind'] === 'armed')
    checkTable(entry, entryShapes[entry['kind']], ['entry']);
  checkTable(value['workspace'], shapes.workspace.shape, ['workspace']);
  checkTable(value['output'], shapes.output.shape, ['output']);
  for (const [name, one] of tableEntries(value['inputs']))
    checkTable(one, shapes.input.shape, ['inputs', name]);
  for (const [name, one] of tableEntries(value['agents'])) {
    const path = ['agents', name];
    checkTable(one, shapes.inlineAgent.shape, path);
    const agent = isRecord(one) ? one : {};
    checkTable(agent['grants'], grants.shape, [...path, 'grants']);
    checkTable(agent['sampling'], agentSampling.shape, [...path, 'sampling']);
    checkTable(agent['limits'], agentLimits.shape, [...path, 'limits']);
  }
  for (const [index, one] of (Array.isArray(value['steps']) ? value['steps'] : []).entries()) {
    const path = ['steps', index];
    checkTable(one, shapes.step.shape, path);
    const step: Record<string, unknown> = isRecord(one) ? one : {};
    checkTable(step['retry'], shapes.retry.shape, [...path, 'retry']);
    checkTable(step['limits'], agentLimits.shape, [...path, 'limits']);
    const gate = isRecord(step['gate']) ? step['gate'] : {};
    checkTable(gate, gateSchemas.get(String(gate['kind'])), [...path, 'gate']);
  }
}
