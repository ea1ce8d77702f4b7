import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AgentError } from '../../src/agent/errors.ts';
import {
  parseTemplate,
  type RunContext,
  renderTemplate,
} from '../../src/agent/workflows/definition/templates.ts';

const view: RunContext = {
  workflow: 'plain',
  run: { id: 'r1', started_at: '2026-01-01T00:00:00.000Z' },
  input: 'now',
  inputs: { topic: 'bees', count: 3, options: { deep: { list: ['a', 'b'] } }, none: null },
  steps: {
    draft: { state: 'completed', output: 'A text.' },
    'look-up': { state: 'completed', output: { title: 'T', healthy: false } },
    skipped: { state: 'skipped' },
    waited: { state: 'completed' },
  },
  gate: { remarks: 'shorter' },
};

describe('render', () => {
  it.each([
    ['nothing', 'nothing'],
    ['{{input}}|{{ input }}', 'now|now'],
    ['{{workflow}} {{run.id}} {{run.started_at}}', 'plain r1 2026-01-01T00:00:00.000Z'],
    ['{{inputs.topic}} {{inputs.count}}', 'bees 3'],
    ['{{inputs.options}}', '{"deep":{"list":["a","b"]}}'],
    ['{{inputs.options.deep.list.1}}', 'b'],
    ['{{inputs.none}}{{inputs.absent}}', ''],
    ['{{steps.draft.output}}', 'A text.'],
    ['{{steps.look-up.output.title}} {{steps.look-up.output.healthy}}', 'T false'],
    ['{{steps.skipped.output}}{{steps.skipped.output.title}}', ''],
    ['{{gate.remarks}}', 'shorter'],
    ['{{"{{"}}x}} {{\'}\'}}', '{{x}} }'],
  ])('%s', (template, expected) => {
    expect(renderTemplate(template, view)).toBe(expected);
  });

  it('reports every missing value', () => {
    const template =
      '{{inputs.options.x}} {{steps.nope.output}} {{steps.waited.output}} {{nope}} {{run.constructor}}';
    expect(() => renderTemplate(template, view)).toThrow(AgentError);
    for (const reference of template.split(' '))
      expect(() => renderTemplate(template, view)).toThrow(`no ${reference}`);
  });

  it.each([
    '{{steps.draft.output.length}}',
    '{{inputs.topic.length}}',
    '{{inputs.options.constructor}}',
    '{{inputs.options.__proto__}}',
    '{{gate.toString}}',
  ])('does not expose members of JavaScript objects: %s', (template) => {
    expect(() => renderTemplate(template, view)).toThrow('there is no');
  });

  it('does not expand inserted values', () => {
    const hostile = { ...view, input: '{{inputs.topic}} {{nope}}', inputs: { topic: '{{input}}' } };
    expect(renderTemplate('{{input}} {{inputs.topic}}', hostile)).toBe('{{inputs.topic}} {{nope}} {{input}}');
  });

  it('keeps any text without braces, and any value, character by character', () => {
    const plain = fc.string({ unit: 'binary' }).filter((text) => !text.includes('{{'));
    fc.assert(fc.property(plain, (text) => renderTemplate(text, view) === text));
    const value = fc.string({ unit: 'binary' });
    fc.assert(
      fc.property(value, (input) => renderTemplate('<{{input}}>', { ...view, input }) === `<${input}>`),
    );
  });

  it('finds a reference or a fault behind every pair of braces', () => {
    const piece = fc.constantFrom('{{', '}}', '{', '}', 'inputs.a', ' ', '"', '.', 'x', '\n');
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
        const text = pieces.join('');
        const { parts, faults } = parseTemplate(text);
        expect(parts.some((part) => typeof part !== 'string') || faults.length > 0 || /["']/.test(text)).toBe(
          text.includes('{{') || /["']/.test(text),
        );
      }),
    );
  });
});
