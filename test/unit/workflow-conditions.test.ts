import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AgentError } from '../../src/agent/errors.ts';
import { compileCel } from '../../src/agent/workflows/definition/cel.ts';
import { type ConditionContext, evaluateCondition } from '../../src/agent/workflows/definition/conditions.ts';

const view: ConditionContext = {
  workflow: 'plain',
  run: { id: 'r1', started_at: '2026-01-01T00:00:00.000Z' },
  input: 'now',
  inputs: { topic: 'bees', count: 3, ratio: 2, half: 0.5, list: [1, 2, 3], options: { a: null } },
  steps: {
    draft: { state: 'completed', output: { score: 7, tags: ['x', 'y'] } },
    'look-up': { state: 'skipped' },
    text: { state: 'completed', output: 'a long text' },
  },
  now: new Date('2026-01-05T09:30:00Z'),
  host: { pending: 2, tasks_running: 0, external_sessions: 1, completions_served: 40, model: 'tiny' },
};
const event = { name: 'task.failed', data: { id: 't1', turns: 4 } };

describe('evaluate', () => {
  it.each([
    ['true', true],
    ['inputs.count > 2 && inputs.topic == "bees"', true],
    ['inputs.count + 1 == 4', true],
    ['inputs.ratio * 1.5 == 3.0 && inputs.count * inputs.half == 1.5', true],
    ['inputs.half + 1 > 1', true],
    ['1 + 1.5 + inputs.count == 5.5', true],
    ['has(inputs.absent)', false],
    ['has(inputs.topic) && !has(inputs.options.b)', true],
    ['inputs.options.a == null', true],
    ['2 in inputs.list && inputs.list.all(x, x < 4)', true],
    ['inputs.list.exists(x, inputs.list.exists(y, x + y == 6))', true],
    ['steps.draft.output.score >= 7 && "x" in steps.draft.output.tags', true],
    ['steps["look-up"].state == "skipped" && steps["look-up"].output == null', true],
    ['steps.draft.error == null', true],
    ['steps.text.output.contains("long")', true],
    ['steps.text.output.matches("^a.*text$")', true],
    ['steps.text.output.split(" ").size() == 3', true],
    ['now > run.started_at && now - run.started_at > duration("48h")', true],
    ['now.getHours("Europe/Berlin") == 10 && now.getDayOfWeek() == 1', true],
    ['now < timestamp("2026-01-05T09:30:01Z")', true],
    ['host.pending > 1 && host.tasks_running == 0 && host.completions_served / 3 == 13', true],
    ['host.external_sessions < 1 || host.model == ""', false],
    ['input == "now" && workflow == "plain" && run.id == "r1"', true],
  ])('%s', (expression, expected) => {
    expect(compileCel(expression, 'condition').faults).toEqual([]);
    expect(evaluateCondition(expression, view)).toBe(expected);
  });

  it('sees the event in where', () => {
    expect(
      evaluateCondition('name == "task.failed" && data.turns > 3 && inputs.count == 3', { ...view, event }),
    ).toBe(true);
    expect(evaluateCondition('has(data.nope)', { ...view, event })).toBe(false);
    expect(() => evaluateCondition('data.turns > 3', view)).toThrow("no 'data' here");
    expect(() => evaluateCondition('host.pending > 3', { ...view, event })).toThrow("no 'host' here");
  });

  it.each([
    ['inputs.nope == 1', 'No such key: nope'],
    ['inputs.topic > 3', 'no such overload'],
    ['inputs.topic', 'neither true nor false'],
    ['inputs.topic.length == 4', 'No such key: length'],
    ['inputs.constructor == 1', 'No such key: constructor'],
    ['inputs.__proto__ == 1', 'No such key: __proto__'],
    ['steps.nope.output == 1', 'No such key: nope'],
    ['1 / (inputs.count - 3) == 1', 'division by zero'],
    ['1 +', 'Unexpected token'],
  ])('reports why it failed: %s', (expression, why) => {
    expect(() => evaluateCondition(expression, view)).toThrow(AgentError);
    expect(() => evaluateCondition(expression, view)).toThrow(why);
  });
});

describe('the types of what a run and the host are known by', () => {
  it.each(['run.id == 3', 'run.started_at > "2026"', 'host.pending == "x"', 'host.model > 1'])(
    'finds without evaluating: %s',
    (expression) => {
      expect(compileCel(expression, 'condition').faults).toMatchObject([
        { message: expect.stringContaining('no such overload') },
      ]);
    },
  );

  it.each(['run.id == "r1"', 'run.started_at < now', 'host.pending > 1.5', 'host.model == ""'])(
    'accepts %s',
    (expression) => {
      expect(compileCel(expression, 'condition').faults).toEqual([]);
    },
  );
});

describe('the cost of an expression', () => {
  it.each([
    ['many characters', `${'!'.repeat(5000)}true`],
    ['many nodes', Array.from({ length: 600 }, () => 'true').join('&&')],
    ['depth', `${'('.repeat(3000)}true${')'.repeat(900)}`.slice(0, 3900)],
    ['a long list', `1 in [${Array.from({ length: 300 }, () => '1').join(',')}]`],
    ['names that double what they hold', 'cel.bind(a, inputs.topic + inputs.topic, a == "")'],
    ['patterns that are made', 'inputs.topic.matches(inputs.topic)'],
    ['patterns that cannot be matched in linear time', 'inputs.topic.matches("(a)\\\\1")'],
    ['patterns that are long when written out', 'inputs.topic.matches("((abc){9}d{9}){90}{9}")'],
    ['all inputs', 'inputs.size() > 1'],
    ['computed steps', 'steps[inputs.topic].state == "completed"'],
    ['JavaScript', 'globalThis.process.exit() == 1'],
    ['functions that are not CEL', 'eval("1") == 1'],
  ])('is limited before evaluation: %s', (_, expression) => {
    const { faults, run } = compileCel(expression, 'condition');
    expect(faults).not.toEqual([]);
    expect(run).toBeUndefined();
  });

  it('is limited by the data that it loops over', () => {
    const list = Array.from({ length: 3000 }, (_, index) => index);
    const large = { ...view, inputs: { list, topic: 'x'.repeat(100_000) } };
    expect(evaluateCondition('inputs.list.exists(x, x == 2999)', large)).toBe(true);
    expect(() => evaluateCondition('inputs.list.all(x, inputs.list.all(y, x + y >= 0))', large)).toThrow(
      'too much data',
    );
    expect(() => evaluateCondition('inputs.list.all(x, inputs.topic.lowerAscii() != "")', large)).toThrow(
      'too much data',
    );
    expect(() => evaluateCondition('inputs.topic.split("").all(x, x == "x")', large)).toThrow(
      'too much data',
    );
    expect(() => evaluateCondition('inputs.topic.matches("(x{9}){9}y")', large)).toThrow('too much data');
    // What it does not read does not count.
    expect(evaluateCondition('inputs.list.exists(x, x == 2999)', { ...large, input: 'y'.repeat(1000) })).toBe(
      true,
    );
  });

  it('is linear for patterns that would backtrack endlessly', () => {
    const inputs = { text: `${'a'.repeat(5000)}!` };
    expect(evaluateCondition('inputs.text.matches("^(a+)+$")', { ...view, inputs })).toBe(false);
  });
});

describe('any expression', () => {
  const word = fc.constantFrom(
    'inputs',
    'steps',
    '.',
    'topic',
    'list',
    '[',
    ']',
    '(',
    ')',
    '==',
    '&&',
    '||',
    '!',
    '1',
    '"a"',
    'x',
    ',',
    '?',
    ':',
    'map',
    'all',
    'exists',
    'matches',
    'has',
    'now',
    'size',
    '+',
    '-',
    '{',
    '}',
    'true',
    'null',
    'in',
    '.output',
    '\\',
  );
  it('is compiled or refused, and evaluated or refused', () => {
    fc.assert(
      fc.property(fc.array(word, { maxLength: 25 }), (words) => {
        const expression = words.join(' ');
        const { run, faults } = compileCel(expression, 'condition');
        expect(run === undefined).toBe(faults.length > 0);
        try {
          expect(typeof evaluateCondition(expression, view)).toBe('boolean');
        } catch (error) {
          expect(error).toBeInstanceOf(AgentError);
        }
      }),
      { numRuns: 3000 },
    );
  });
});
