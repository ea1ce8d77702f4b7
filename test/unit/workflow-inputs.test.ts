import { describe, expect, it } from 'vitest';
import { AgentError } from '../../src/agent/errors.ts';
import { agentSpec } from '../../src/agent/shapes/agent-spec.ts';
import {
  resolveGrants,
  resolveInputs,
  resolveWorkspace,
} from '../../src/agent/workflows/definition/inputs.ts';
import { validateWithDefaults } from '../../src/agent/workflows/definition/json-schema.ts';
import { parseEnsemble } from '../../src/agent/workflows/definition/parse-ensemble.ts';
import { workflow } from '../support/workflows.ts';

const declared = parseEnsemble(
  workflow({
    rest: `grants = {read = [".", "./docs", "/etc"], write = ["./out"]}
[workspace]
input = "folder"
[inputs.folder]
type = "string"
[inputs.topic]
type = "string"
required = true
description = "What it is about."
[inputs.count]
type = "integer"
default = 3
enum = [1, 2, 3]
[inputs.tags]
type = "array"`,
  }),
);

/** The faults of a refusal. */
function faultsOf(work: () => unknown) {
  try {
    work();
  } catch (error) {
    if (error instanceof AgentError) return error.faults?.map(({ path, message }) => `${path}: ${message}`);
    throw error;
  }
  return undefined;
}

describe('inputs of a run', () => {
  it('are the given ones, and defaults', () => {
    expect(resolveInputs(declared, { topic: 'bees' })).toEqual({ topic: 'bees', count: 3 });
    expect(resolveInputs(declared, { topic: '', count: 1, tags: [], folder: '/srv' })).toEqual({
      topic: '',
      count: 1,
      tags: [],
      folder: '/srv',
    });
  });

  it('are refused with every violation', () => {
    const given = { count: 4, tags: {}, topik: 'bees', folder: 'srv', toString: 1 };
    expect(faultsOf(() => resolveInputs(declared, given))).toEqual([
      "inputs.topik: the workflow declares no input of this name; did you mean 'topic'?",
      'inputs.toString: the workflow declares no input of this name',
      'inputs.topic: is required: What it is about.',
      'inputs.count: expected one of [1,2,3]',
      'inputs.tags: expected a value of the type array',
      'inputs.folder: names the folder to work in: expected an absolute path',
    ]);
    expect(faultsOf(() => resolveInputs(declared, { topic: null, count: 1.5 }))).toHaveLength(2);
  });
});

describe('the workspace', () => {
  const worker = agentSpec.parse(declared.agents['worker']);

  it('is the folder that its input names', () => {
    expect(resolveWorkspace(declared, { folder: '/srv/project/' })).toBe('/srv/project');
    expect(resolveWorkspace(declared, { folder: '/srv/a/../project' })).toBe('/srv/project');
    expect(resolveWorkspace(declared, {})).toBeUndefined();
    expect(resolveWorkspace(parseEnsemble(workflow()), { folder: '/srv' })).toBeUndefined();
  });

  it('replaces dots in grants, which grant nothing without a workspace', () => {
    expect(resolveGrants(worker, '/srv').grants).toMatchObject({
      read: ['/srv', '/srv/docs', '/etc'],
      write: ['/srv/out'],
    });
    expect(resolveGrants(worker, undefined).grants).toMatchObject({ read: ['/etc'], write: [] });
  });
});

describe('fitSchema', () => {
  const schema = {
    type: 'object',
    required: ['name'],
    additionalProperties: false,
    properties: {
      name: { type: 'string', minLength: 2 },
      kind: { enum: ['a', 'b'], default: 'a' },
      when: { type: 'string', format: 'date-time' },
      list: { type: 'array', items: { type: 'integer' } },
      code: { type: 'string', pattern: '^(a+)+$' },
    },
  };

  it('fills in defaults, and does not change the given value', () => {
    const given = { name: 'bees' };
    expect(validateWithDefaults(schema, given)).toEqual({ value: { name: 'bees', kind: 'a' }, faults: [] });
    expect(given).toEqual({ name: 'bees' });
    expect(validateWithDefaults({}, { any: 1 })).toEqual({ value: { any: 1 }, faults: [] });
  });

  it('reports every violation', () => {
    const { faults } = validateWithDefaults(schema, { kind: 'c', when: 'soon', list: [1, 'x'], more: 1 });
    expect(faults.map(({ path, message }) => `${path}: ${message}`).toSorted()).toEqual([
      'kind: expected one of ["a","b"]',
      'list.1: must be integer',
      'more: there is no member of this name',
      'name: is missing',
      'when: must match format "date-time"',
    ]);
    expect(validateWithDefaults(schema, 'text').faults).toEqual([{ path: '', message: 'must be object' }]);
  });

  it('matches patterns in linear time', () => {
    expect(validateWithDefaults(schema, { name: 'xy', code: `${'a'.repeat(5000)}!` }).faults).toHaveLength(1);
  });
});
