import { describe, expect, it } from 'vitest';
import type { Model } from '../../src/gateway/catalog/types.ts';
import type { Effort } from '../../src/wires/core/types.ts';
import type { WireKind } from '../../src/wires/providers.ts';
import { findAssumptions } from '../../src/gateway/config/remarks.ts';
import { chatWire } from '../../src/wires/chat/client.ts';
import { efforts } from '../../src/wires/core/effort.ts';
import { translationOf } from '../../src/wires/translation.ts';
import { responsesWire } from '../../src/wires/responses/client.ts';
import { modelOf } from '../support/gateway/models.ts';
import { configOf } from '../support/gateway/world.ts';

interface Body {
  readonly reasoning_effort?: Effort;
  readonly reasoning?: { readonly effort?: Effort };
}

/** What is sent to a provider for each effort that is requested on each of OpenAI's wires. */
function mapEfforts(wire: WireKind, more: Partial<Model>, member: (body: Body) => unknown) {
  const model = modelOf(wire, { efforts: undefined, ...more });
  const mapEffort = (client: typeof chatWire, body: Record<string, unknown>) => {
    const text = JSON.stringify(body);
    const facts = client.facts(body, text);
    const request = { text, body, facts, header: () => undefined };
    const sent = translationOf(client, wire).request(request, { model, stream: false, maxTokens: 4096 });
    return member(JSON.parse(sent.text) as Body);
  };
  const messages = [{ role: 'user', content: 'Hi' }];
  return {
    chat: efforts.map((reasoning_effort) => mapEffort(chatWire, { model: 'm', messages, reasoning_effort })),
    responses: efforts.map((effort) =>
      mapEffort(responsesWire, { model: 'm', input: 'Hi', reasoning: { effort } }),
    ),
  };
}
const both = (expected: readonly (string | undefined)[]) => ({ chat: expected, responses: expected });
const usual = ['low', 'low', 'low', 'medium', 'high', 'high', 'high'];
const named = (body: Body) => body.reasoning_effort;

describe('reasoning_effort for a model without configured levels', () => {
  it('is mapped to the nearest of the levels assumed for its wire', () => {
    expect(mapEfforts('openai-chat', {}, named)).toEqual(both(usual));
    expect(mapEfforts('openai-responses', {}, (body) => body.reasoning?.effort)).toEqual(both(usual));
  });

  it('is passed unchanged to a lathe host, which supports all levels', () => {
    expect(mapEfforts('lathe', {}, named)).toEqual(both(efforts));
  });

  it('is omitted when the model supports none, or when its provider rejects unknown levels', () => {
    const none = both(efforts.map(() => undefined));
    expect(mapEfforts('openai-chat', { efforts: [] }, named)).toEqual(none);
    expect(mapEfforts('openai-chat', { caps: new Set(['chat']) }, named)).toEqual(none);
    expect(mapEfforts('openai-chat', { family: 'mistral' }, named)).toEqual(none);
  });

  it('`catalog check` reports the assumed levels', () => {
    const assumed = (wire: WireKind, more: Partial<Model> = {}) =>
      findAssumptions({ ...configOf([]), models: [modelOf(wire, { efforts: undefined, ...more })] });
    expect(assumed('openai-chat')).toEqual([
      'the-model has the capability reasoning: its levels of reasoning_effort are assumed to be low, medium, high; name them with efforts = [...], or efforts = [] where it takes none',
    ]);
    expect(assumed('openai-responses')).toHaveLength(1);
    expect(assumed('openai-chat', { family: 'mistral' })[0]).toContain('reasoning_effort is not sent to it');
    for (const wire of ['lathe', 'google', 'anthropic-messages'] as const) expect(assumed(wire)).toEqual([]);
    expect(assumed('openai-chat', { efforts: ['low'] })).toEqual([]);
    expect(assumed('openai-chat', { efforts: [] })).toEqual([]);
    expect(assumed('openai-chat', { caps: new Set(['chat']) })).toEqual([]);
  });
});
