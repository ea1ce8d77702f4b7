import fc from 'fast-check';
import { readdir, readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import {
  type DeclaredField,
  schemaFields,
  initialText,
  parseField,
} from '../../web/console/agents/declared-fields.ts';
import { matchesGlob } from '../../web/console/agents/tools.ts';
import { draftOf, specOf } from '../../web/console/views/tasks/agent-draft.ts';
import { emptyDraft, buildTaskRequest } from '../../web/console/views/tasks/task-request.ts';
import { parseWorkflowInputs } from '../../web/console/views/workflows/workflow-inputs.ts';
import { lintDiagnostics } from '../../web/console/views/workflows/lint-diagnostics.ts';

const field = (overrides: Partial<DeclaredField>): DeclaredField => ({
  name: 'it',
  type: 'string',
  required: false,
  ...overrides,
});

describe('a form of declared fields', () => {
  it('reads the text of a value back as the same value', () => {
    const valuesByType = [
      ['string', fc.string()],
      ['number', fc.double({ noNaN: true, noDefaultInfinity: true }).map((one) => one + 0)],
      ['integer', fc.maxSafeInteger()],
      ['boolean', fc.boolean()],
      ['array', fc.array(fc.integer())],
      ['object', fc.dictionary(fc.string(), fc.string())],
      ['any', fc.oneof(fc.string(), fc.integer(), fc.boolean(), fc.constant(null))],
    ] as const;
    const kind = fc.oneof(
      ...valuesByType.map(([type, values]) =>
        fc.record({ type: fc.constant(type), value: values as fc.Arbitrary<unknown> }),
      ),
    );
    fc.assert(
      fc.property(kind, ({ type, value }) => {
        const declaredField = field({ type, default: value });
        expect(JSON.stringify(parseField(declaredField, initialText(value, declaredField)))).toBe(
          JSON.stringify({ value }),
        );
      }),
    );
  });

  it('omits empty fields, and reports missing required ones', () => {
    expect(parseField(field({}), '')).toEqual({ absent: true });
    expect(parseField(field({ type: 'integer' }), ' ')).toEqual({ absent: true });
    expect(parseField(field({ required: true }), '')).toEqual({ fault: 'is required' });
    // A cleared default is an empty string.
    expect(parseField(field({ default: 'long' }), '')).toEqual({ value: '' });
  });

  it('reports values of the wrong type', () => {
    expect(parseField(field({ type: 'integer' }), '1.5')).toEqual({ fault: 'expected a whole number' });
    expect(parseField(field({ type: 'number' }), 'many')).toEqual({ fault: 'expected a number' });
    expect(parseField(field({ type: 'array' }), '{}')).toEqual({ fault: 'expected an array such as [1, 2]' });
    expect(parseField(field({ type: 'object' }), '[]')).toEqual({
      fault: 'expected an object such as {"name": 1}',
    });
    expect(parseField(field({ type: 'any' }), 'x')).toHaveProperty('fault');
  });

  it('reads the schema of a gate', () => {
    const schema = {
      type: 'object',
      required: ['file'],
      properties: { file: { type: 'string' }, size: { enum: [1, 'big'] }, both: { anyOf: [] } },
    };
    expect(schemaFields(schema)).toEqual([
      { name: 'file', type: 'string', required: true },
      { name: 'size', type: 'any', required: false, enum: [1, 'big'] },
      { name: 'both', type: 'any', required: false },
    ]);
    expect(schemaFields({})).toBeUndefined();
    expect(schemaFields({ type: 'object', additionalProperties: false })).toEqual([]);
  });
});

describe('declared inputs of a workflow', () => {
  it('are found in every built-in workflow', async () => {
    const folder = new URL('../../workflows/', import.meta.url);
    const found = await Promise.all(
      (await readdir(folder)).map(async (file) =>
        parseWorkflowInputs(await readFile(new URL(file, folder), 'utf8')),
      ),
    );
    expect(found.every((one) => one !== undefined && one.inputs.length > 0)).toBe(true);
    expect(found.map((one) => one?.entry)).toContain('armed');
  });

  it('include the request text only if a step reads it', () => {
    const step = (text: string) =>
      `[inputs.input]\ntype = "string"\n[workspace]\ninput = "input"\n[[steps]]\nid = "a"\n${text}`;
    const reads = (text: string) => parseWorkflowInputs(step(text))?.usesInput;
    expect(reads('prompt = "Look at {{ input }}."')).toBe(true);
    expect(reads(`when = 'input != ""'`)).toBe(true);
    expect(reads('gate = { kind = "input" }\nprompt = "{{inputs.input}} and input"')).toBe(false);
    expect(reads(`when = 'inputs.input == "input"'`)).toBe(false);
    expect(parseWorkflowInputs('[')).toBeUndefined();
  });

  it('have lint findings at their positions, covering a whole quoted string', () => {
    const finding = {
      code: 'unknown_agent',
      path: 'steps[0].agent',
      message: 'there is none',
      line: 2,
      column: 9,
    };
    const report = { ok: false, errors: [finding], warnings: [{ ...finding, line: 9 }] };
    expect(lintDiagnostics(report, 'id = "a"\nagent = "no\\"body" # "x"')).toEqual([
      { line: 2, column: 9, endColumn: 19, severity: 'error', message: 'there is none (unknown_agent)' },
      { line: 9, column: 9, severity: 'warning', message: 'there is none (unknown_agent)' },
    ]);
  });
});

describe('the form of a task', () => {
  const prompt = 'Look.';

  it('sends only the fields that were filled in', () => {
    expect(buildTaskRequest({ ...emptyDraft, prompt }, 'default', ['a'], new Set())).toEqual({
      body: { prompt, agent: 'default' },
    });
    const draft = {
      ...emptyDraft,
      prompt,
      cwd: ' /srv ',
      max_turns: '3',
      temperature: '0',
      inputs: '{"x": 1}',
      answer: 'json_schema',
      schema: '{"type": "object"}',
    } as const;
    expect(buildTaskRequest(draft, 'reader', ['a', 'b'], new Set(['b']))).toEqual({
      body: {
        prompt,
        agent: 'reader',
        cwd: '/srv',
        inputs: { x: 1 },
        grants: { tools: ['a'] },
        response_format: { type: 'json_schema', json_schema: { schema: { type: 'object' } } },
        limits: { max_turns: 3 },
        sampling: { temperature: 0 },
      },
    });
  });

  it('reports all faults at once', () => {
    const draft = {
      ...emptyDraft,
      max_tokens: 'many',
      inputs: '[]',
      answer: 'json_schema',
      schema: '{',
    } as const;
    const read = buildTaskRequest(draft, 'default', [], new Set());
    expect(Object.keys('faults' in read ? read.faults : {}).toSorted()).toEqual([
      'inputs',
      'max_tokens',
      'prompt',
      'schema',
    ]);
  });
});

describe('the form of an agent', () => {
  const spec = {
    name: 'reader',
    instructions: 'Read.',
    model: 'resident',
    grants: { tools: ['fs_*'], read: ['/a', '/b'], write: [], network: [], auto_approve: [] },
    sampling: { temperature: 0 },
    limits: { max_turns: 4 },
    tool_choice: { name: 'fs_read' },
    colour: 'blue',
  };

  it('preserves a spec, including members that the form does not have', () => {
    expect(specOf(draftOf(spec), spec)).toEqual(spec);
  });

  it('removes cleared members, and sends text that is not a number unchanged', () => {
    const draft = { ...draftOf(spec), temperature: '', max_turns: 'many', tool_choice: '', read: '\n/c\n' };
    const { sampling, limits, tool_choice: choice, grants: may } = specOf(draft, spec);
    expect([sampling, limits, choice, may.read]).toEqual([
      undefined,
      { max_turns: 'many' },
      undefined,
      ['/c'],
    ]);
  });
});

it('a grant matches * as a wildcard and all other characters literally', () => {
  expect(['fs_*', '*', 'fs_read', '*_read'].every((glob) => matchesGlob(glob, 'fs_read'))).toBe(true);
  expect(['fs.read', 'fs', 'read', 'fs_rea?'].some((glob) => matchesGlob(glob, 'fs_read'))).toBe(false);
});
