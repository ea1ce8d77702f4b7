/** Prices besides those of tokens of text: tiers, audio and images, calls of the provider's tools; exact, and within the hold. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { boundCalls, callLimitFor, limitCalls } from '../../src/gateway/catalog/hosted-calls.ts';
import { costOf, maxCost, maxInputTokens, possibleTiers } from '../../src/gateway/catalog/price.ts';
import { parseCallPrice, priceOf, type RateCard } from '../../src/gateway/catalog/rate-card.ts';
import type { Model, Price } from '../../src/gateway/catalog/types.ts';
import { capCost } from '../../src/gateway/serve/receipt.ts';
import { usesUnpricedFeatures } from '../../src/gateway/serve/unpriced-features.ts';
import { AnswerTally } from '../../src/gateway/serve/relay.ts';
import { readUsage as readChatUsage, writeUsage } from '../../src/wires/chat/usage.ts';
import { UsageReader } from '../../src/wires/google/usage.ts';
import { UsageMeter } from '../../src/wires/messages/usage.ts';
import { openaiResponses } from '../../src/wires/responses/upstream.ts';
import { readUsage as readResponsesUsage } from '../../src/wires/responses/usage.ts';
import { google } from '../../src/wires/google/index.ts';
import type { HostedCalls, Usage } from '../../src/wires/core/types.ts';
import type { RequestFacts } from '../../src/wires/core/wire.ts';

const card: RateCard = {
  in_usd_per_mtok: '2',
  out_usd_per_mtok: '8',
  cache_read_usd_per_mtok: '0.5',
  in_audio_usd_per_mtok: '32',
  out_audio_usd_per_mtok: '64',
  in_image_usd_per_mtok: '5',
  out_image_usd_per_mtok: '40',
  tiers: {
    flex: { in_usd_per_mtok: '1', out_usd_per_mtok: '4' },
    priority: { in_usd_per_mtok: '4', out_usd_per_mtok: '16', in_audio_usd_per_mtok: '33' },
  },
  hosted_tools: { web_search_usd_per_call: '0.01', code_interpreter_usd_per_call: '0.03', max_calls: 3 },
};
const { price } = priceOf(card);
const usage = (some: Partial<Usage>): Usage => ({
  fresh: 0,
  cacheWrite: 0,
  cacheWrite1h: 0,
  cacheRead: 0,
  output: 0,
  ...some,
});
const facts = (some: Partial<RequestFacts> = {}) => ({
  textBytes: 100,
  parts: 1,
  images: 0,
  fileBytes: 0,
  answers: 1,
  ...some,
});
const at = (wire: string) => ({ provider: { wire } as Model['provider'] });

describe('the cost', () => {
  test('of audio and images is at their own prices, in lines of their own that are parts of the components', () => {
    const cost = costOf(
      price,
      usage({ fresh: 1000, audioInput: 600, imageInput: 100, output: 100, audioOutput: 70, imageOutput: 10 }),
    );
    expect(cost.components).toEqual({
      fresh: 300n * 2000n + 600n * 32_000n + 100n * 5000n,
      cache_write: 0n,
      cache_read: 0n,
      output: 20n * 8000n + 70n * 64_000n + 10n * 40_000n,
    });
    expect(cost.lines).toEqual([
      { item: 'audio_input', quantity: 600, cost: 600n * 32_000n },
      { item: 'image_input', quantity: 100, cost: 100n * 5000n },
      { item: 'audio_output', quantity: 70, cost: 70n * 64_000n },
      { item: 'image_output', quantity: 10, cost: 10n * 40_000n },
    ]);
    // More than there are cannot be billed, and what has no price of its own has that of text.
    const most = costOf(price, usage({ fresh: 10, audioInput: 600, imageInput: 600 }));
    expect(most.total).toBe(10n * 32_000n);
    const { price: plain } = priceOf({ in_usd_per_mtok: '2', out_usd_per_mtok: '8' });
    const same = costOf(plain, usage({ fresh: 10, audioInput: 6, output: 5, audioOutput: 5 }));
    expect(same).toEqual(costOf(plain, usage({ fresh: 10, output: 5 })));
  });

  test('is at the prices of the tier that the provider reports, if it has any', () => {
    const used = usage({ fresh: 100, output: 10, audioInput: 10 });
    const costAt = (tier?: Usage['tier']) => costOf(price, { ...used, ...(tier ? { tier } : {}) });
    expect(costAt().total).toBe(90n * 2000n + 10n * 32_000n + 10n * 8000n);
    expect(costAt('flex')).toMatchObject({ total: 90n * 1000n + 10n * 32_000n + 10n * 4000n, tier: 'flex' });
    expect(costAt('priority').total).toBe(90n * 4000n + 10n * 33_000n + 10n * 16_000n);
    const { tiers: _, ...rest } = card;
    expect(costOf(priceOf(rest).price, { ...used, tier: 'priority' })).toEqual(costAt());
  });

  test('of calls is a component and a line for each tool', () => {
    const cost = costOf(
      price,
      usage({ fresh: 1, hostedCalls: { web_search: 2, code_interpreter: 1, file_search: 9 } }),
    );
    expect(cost.components.tools).toBe(50_000_000n);
    expect(cost.total).toBe(50_000_000n + 2000n);
    expect(cost.lines).toEqual([
      { item: 'web_search', quantity: 2, cost: 20_000_000n },
      { item: 'code_interpreter', quantity: 1, cost: 30_000_000n },
    ]);
  });

  test('that is capped takes its lines along: what is left of a component is left of its lines', () => {
    const cost = costOf(
      price,
      usage({ fresh: 10, audioInput: 10, output: 1, hostedCalls: { web_search: 1 } }),
    );
    const capped = capCost(cost, 100_000n);
    expect(capped.components).toEqual({
      fresh: 100_000n,
      cache_write: 0n,
      cache_read: 0n,
      output: 0n,
      tools: 0n,
    });
    expect(capped.lines).toEqual([
      { item: 'audio_input', quantity: 10, cost: 100_000n },
      { item: 'web_search', quantity: 1, cost: 0n },
    ]);
  });

  test('has an identity that covers every price', () => {
    const others: RateCard[] = [
      { ...card, in_audio_usd_per_mtok: '1' },
      { ...card, out_audio_usd_per_mtok: '1' },
      { ...card, in_image_usd_per_mtok: '1' },
      { ...card, out_image_usd_per_mtok: '1' },
      { ...card, tiers: {} },
      { ...card, tiers: { flex: { in_usd_per_mtok: '9', out_usd_per_mtok: '4' } } },
      { ...card, hosted_tools: { web_search_usd_per_call: '0.02' } },
      { ...card, hosted_tools: { web_search_usd_per_call: '0.01', max_calls: 4 } },
    ];
    const identities = [card, ...others].map((one) => priceOf(one).price.identity);
    expect(new Set(identities).size).toBe(identities.length);
  });

  test.each([
    ['0.01', 10_000_000_000n],
    ['0.000000000001', 1n],
    ['1000', 10n ** 15n],
    ['1000.1', /at most 1000/],
    ['-1', /negative/],
    ['0.0000000000001', /at most 12 decimals/],
    ['ten cents', /US dollars a call/],
  ])('a call for %s', (text, expected) => {
    const parsed = parseCallPrice(text);
    if (expected instanceof RegExp) expect(parsed).toMatch(expected);
    else expect(parsed).toBe(expected);
  });
});

describe('the hold', () => {
  const model = { price, contextWindow: 10_000, family: 'openai' };
  const input = 100n + 64n + 256n;

  test('covers the dearest tier that the request may get', () => {
    const holdAt = (wire: string, serviceTier?: string) =>
      maxCost({ model: { ...model, ...at(wire) }, facts: facts({ serviceTier }), maxTokens: 10 });
    const usual = input * 2000n + 10n * 8000n;
    const priority = input * 4000n + 10n * 16_000n;
    expect(holdAt('openai-chat')).toBe(usual);
    expect(holdAt('openai-chat', 'flex')).toBe(usual);
    expect(holdAt('openai-chat', 'priority')).toBe(priority);
    expect(holdAt('openai-chat', 'scale')).toBe(usual);
    expect(holdAt('anthropic-messages')).toBe(priority);
    expect(holdAt('anthropic-messages', 'auto')).toBe(priority);
    expect(holdAt('anthropic-messages', 'standard_only')).toBe(usual);
    expect(possibleTiers({ price }, { serviceTier: 'flex' })).toEqual(['flex']);
  });

  test('has the prices of audio and images where the request has them', () => {
    const hold = (some: Partial<RequestFacts>) => maxCost({ model, facts: facts(some), maxTokens: 10 });
    expect(hold({ media: ['audio_input'] })).toBe(input * 32_000n + 10n * 8000n);
    expect(hold({ media: ['audio_output'] })).toBe(input * 2000n + 10n * 64_000n);
    expect(hold({ media: ['image_output'] })).toBe(input * 2000n + 10n * 40_000n);
    expect(hold({ fileBytes: 1 })).toBe(10_000n * 5000n + 10n * 8000n);
  });

  test('covers a bounded number of calls, and a context window of input for each', () => {
    const search = { tool: 'web_search', param: 'tools.0.type' } as const;
    const code = { tool: 'code_interpreter', param: 'tools.1.type' } as const;
    const hold = (wire: string, some: Partial<RequestFacts>) =>
      maxCost({ model: { ...model, ...at(wire) }, facts: facts(some), maxTokens: 0 });
    const windows = (calls: bigint) => (input + calls * 10_000n) * 2000n;
    // The card's limit, of all tools together, at the dearest tool.
    expect(hold('openai-responses', { hostedTools: [search, code] })).toBe(windows(3n) + 90_000_000n);
    expect(hold('openai-responses', { hostedTools: [search], maxHostedCalls: 1 })).toBe(
      windows(1n) + 10_000_000n,
    );
    expect(hold('openai-responses', { hostedTools: [search, code], maxHostedCalls: 5 })).toBe(
      windows(5n) + 5n * 30_000_000n,
    );
    expect(
      hold('anthropic-messages', { hostedTools: [{ ...search, maxCalls: 5 }], serviceTier: 'standard_only' }),
    ).toBe(windows(5n) + 50_000_000n);
    expect(hold('anthropic-messages', { hostedTools: [search], serviceTier: 'standard_only' })).toBe(
      windows(3n) + 30_000_000n,
    );
    const chat = { tool: 'web_search', param: 'web_search_options' } as const;
    expect(hold('openai-chat', { hostedTools: [chat], answers: 2 })).toBe(windows(2n) + 20_000_000n);
    expect(hold('google', { hostedTools: [chat] })).toBe(windows(3n) + 30_000_000n);
    // A tool without a price is refused before; here it has no call.
    expect(hold('openai-responses', { hostedTools: [{ ...search, tool: 'file_search' }] })).toBe(windows(0n));
  });

  test('the limit is sent where the request has none', () => {
    const search = { tool: 'web_search', param: 'tools.0.type' } as const;
    expect(callLimitFor(model, facts({ hostedTools: [search] }))).toBe(3);
    expect(callLimitFor(model, facts({ hostedTools: [search], maxHostedCalls: 9 }))).toBeUndefined();
    expect(callLimitFor(model, facts())).toBeUndefined();
  });

  test('calls are billed as reported, up to the limit; those of a tool that was not asked for are not', () => {
    const search = { tool: 'web_search', param: 'tools.0.type' } as const;
    const bound = boundCalls({ price, ...at('openai-responses') }, facts({ hostedTools: [search] }));
    const billed = (hostedCalls: HostedCalls) => limitCalls(usage({ hostedCalls }), bound).hostedCalls;
    expect(billed({ web_search: 2 })).toEqual({ web_search: 2 });
    expect(billed({ web_search: 7, code_interpreter: 1 })).toEqual({ web_search: 3 });
    const chat = { tool: 'web_search', param: 'web_search_options' } as const;
    // A search model of the chat wire searches once for each answer, and reports nothing.
    const implied = boundCalls({ price, ...at('openai-chat') }, facts({ hostedTools: [chat] }));
    expect(limitCalls(usage({}), implied).hostedCalls).toEqual({ web_search: 1 });
    const grounded = boundCalls({ price, ...at('google') }, facts({ hostedTools: [chat] }));
    expect(limitCalls(usage({}), grounded).hostedCalls).toBeUndefined();
    expect(limitCalls(usage({ hostedCalls: { web_search: 2 } }), boundCalls({ price }, facts()))).toEqual(
      usage({}),
    );
  });
});

const pico = fc.bigInt({ min: 0n, max: 5_000_000n });
const maybePico = fc.option(pico, { nil: undefined });
const flatRates = fc.record({
  input: pico,
  output: pico,
  cacheRead: pico,
  cacheWrite: pico,
  cacheWrite1h: pico,
  audioInput: maybePico,
  imageInput: maybePico,
  audioOutput: maybePico,
  imageOutput: maybePico,
});
const withLong = fc
  .record({ flat: flatRates, long: fc.option(fc.record({ over: fc.nat(50_000), flat: flatRates })) })
  .map(({ flat, long }) => ({
    ...flat,
    identity: '',
    ...(long ? { longContext: { over: long.over, price: { ...long.flat, identity: '' } } } : {}),
  }));
const prices = fc
  .record({
    base: withLong,
    flex: fc.option(withLong, { nil: undefined }),
    priority: fc.option(withLong, { nil: undefined }),
    search: fc.bigInt({ min: 0n, max: 10n ** 11n }),
    code: fc.bigInt({ min: 0n, max: 10n ** 11n }),
    maxCalls: fc.integer({ min: 1, max: 6 }),
  })
  .map(({ base, flex, priority, search, code, maxCalls }) => ({
    ...base,
    tiers: { ...(flex && { flex }), ...(priority && { priority }) },
    hostedTools: { perCall: { web_search: search, code_interpreter: code }, maxCalls },
  })) as unknown as fc.Arbitrary<Price>;
const requests = fc.record({
  textBytes: fc.nat(50_000),
  parts: fc.nat(20),
  images: fc.nat(3),
  fileBytes: fc.constantFrom(0, 1),
  answers: fc.integer({ min: 1, max: 3 }),
  serviceTier: fc.constantFrom(undefined, 'auto', 'flex', 'priority', 'standard_only'),
  media: fc.subarray(['audio_input', 'audio_output', 'image_output'] as const),
  hostedTools: fc.subarray([
    { tool: 'web_search', param: 'tools.0.type' },
    { tool: 'code_interpreter', param: 'tools.1.type', maxCalls: 2 },
  ] as const),
  maxHostedCalls: fc.option(fc.integer({ min: 1, max: 5 }), { nil: undefined }),
}) as unknown as fc.Arbitrary<ReturnType<typeof facts> & RequestFacts>;

test('no usage that a request can have costs more than its hold: any tier that it may get, audio, images and calls', () => {
  const wires = ['openai-chat', 'openai-responses', 'anthropic-messages', 'google'] as const;
  fc.assert(
    fc.property(
      fc.record({
        price: prices,
        contextWindow: fc.integer({ min: 1, max: 100_000 }),
        family: fc.constantFrom('openai', 'anthropic'),
        provider: fc.constantFrom(...wires).map((wire) => ({ wire }) as Model['provider']),
      }),
      requests,
      fc.nat(5000),
      fc.array(fc.nat(1000), { minLength: 4, maxLength: 4 }),
      fc.array(fc.nat(100_000), { minLength: 4, maxLength: 4 }),
      fc.record({ web_search: fc.nat(20), code_interpreter: fc.nat(20), file_search: fc.nat(3) }),
      fc.nat(2),
      (model, request, maxTokens, shares, media, hostedCalls, tierIndex) => {
        const bound = boundCalls(model, request);
        const passes = BigInt(bound.total) * BigInt(model.contextWindow);
        const input = Number(maxInputTokens(model, request) + passes);
        const whole = Math.max(
          1,
          shares.reduce((sum, share) => sum + share),
        );
        const [fresh = 0, cacheWrite = 0, cacheWrite1h = 0, cacheRead = 0] = shares.map((share) =>
          Math.floor((input * share) / whole),
        );
        const has = (kind: 'audio_input' | 'audio_output' | 'image_output') => request.media?.includes(kind);
        const [audioIn = 0, imageIn = 0, audioOut = 0, imageOut = 0] = media;
        const tier = [undefined, ...possibleTiers(model, request)][tierIndex];
        const used = usage({
          fresh,
          cacheWrite,
          cacheWrite1h,
          cacheRead,
          output: maxTokens * request.answers,
          ...(has('audio_input') ? { audioInput: audioIn } : {}),
          ...(request.images > 0 || request.fileBytes > 0 ? { imageInput: imageIn } : {}),
          ...(has('audio_output') ? { audioOutput: audioOut } : {}),
          ...(has('image_output') ? { imageOutput: imageOut } : {}),
          ...(tier ? { tier } : {}),
          hostedCalls,
        });
        const held = maxCost({ model, facts: request, maxTokens });
        const cost = costOf(model.price, limitCalls(used, bound));
        expect(cost.total <= held).toBe(true);
        const { fresh: a, cache_write: b, cache_read: c, output: d, tools = 0n } = cost.components;
        expect(a + b + c + d + tools).toBe(cost.total);
        const lineSum = (cost.lines ?? []).reduce((sum, line) => sum + line.cost, 0n);
        expect(lineSum <= a + d + tools).toBe(true);
        // Whatever else is reported is cut to what is held, and still adds up.
        const absurd = costOf(model.price, { ...used, output: 1e12, tier: 'priority', hostedCalls });
        const capped = capCost(absurd, absurd.total < held ? absurd.total : held);
        expect(capped.total <= held).toBe(true);
        expect(Object.values(capped.components).reduce((sum, amount) => sum + amount)).toBe(capped.total);
        for (const line of capped.lines ?? []) expect(line.cost >= 0n).toBe(true);
      },
    ),
    { numRuns: 500 },
  );
});

test('an answer for which the provider ran tools or made audio is not for the cache, whatever it costs', () => {
  const isUsed = (wire: 'chat' | 'responses' | 'messages', provider: string, body: object) =>
    usesUnpricedFeatures(
      wire,
      {
        model: { ...at(provider), price } as unknown as Model,
        credential: { kind: 'house', apiKey: undefined },
      },
      body as Readonly<Record<string, unknown>>,
    );
  expect(isUsed('responses', 'openai-responses', { tools: [{ type: 'web_search' }] })).toBe(true);
  expect(isUsed('messages', 'anthropic-messages', { tools: [{ type: 'web_search_20250305' }] })).toBe(true);
  expect(isUsed('chat', 'openai-chat', { web_search_options: {} })).toBe(true);
  expect(isUsed('chat', 'openai-chat', { modalities: ['text', 'audio'] })).toBe(true);
  expect(isUsed('chat', 'openai-chat', { tools: [{ type: 'function' }], service_tier: 'flex' })).toBe(false);
});

describe('what providers report', () => {
  test('chat: the details of tokens, and the tier', () => {
    const body = {
      prompt_tokens: 100,
      completion_tokens: 50,
      prompt_tokens_details: { cached_tokens: 10, audio_tokens: 60, image_tokens: 5 },
      completion_tokens_details: { reasoning_tokens: 3, audio_tokens: 40 },
    };
    const read = readChatUsage(body, 'priority');
    expect(read).toEqual({
      fresh: 90,
      cacheWrite: 0,
      cacheWrite1h: 0,
      cacheRead: 10,
      output: 50,
      reasoning: 3,
      audioInput: 60,
      imageInput: 5,
      audioOutput: 40,
      tier: 'priority',
    });
    expect(writeUsage(read as Usage)).toMatchObject({
      prompt_tokens_details: { audio_tokens: 60, image_tokens: 5 },
      completion_tokens_details: { audio_tokens: 40 },
    });
    for (const tier of ['default', 'scale', 'auto', undefined, 3])
      expect(readChatUsage(body, tier)).not.toHaveProperty('tier');
  });

  test('responses: the details, the tier, and the calls of its items, each once', () => {
    const response = {
      id: 'r',
      status: 'completed',
      service_tier: 'flex',
      usage: { input_tokens: 9, output_tokens: 5, input_tokens_details: { audio_tokens: 4 } },
      output: [
        { type: 'web_search_call', id: 'w1', action: { type: 'search', query: 'x' } },
        { type: 'web_search_call', id: 'w2', action: { type: 'open_page', url: 'https://x.example' } },
        { type: 'web_search_call', id: 'w3' },
        { type: 'file_search_call', id: 'f1' },
        { type: 'code_interpreter_call', id: 'c1', container_id: 'cntr' },
        { type: 'code_interpreter_call', id: 'c2', container_id: 'cntr' },
        { type: 'message', id: 'm', content: [{ type: 'output_text', text: 'Yes.' }] },
      ],
    };
    expect(readResponsesUsage(response)).toMatchObject({ fresh: 9, audioInput: 4, tier: 'flex' });
    const tallyOf = (events: Parameters<AnswerTally['add']>[0]) => {
      const tally = new AnswerTally();
      tally.add(events);
      return tally.usage;
    };
    const hostedCalls = { web_search: 2, file_search: 1, code_interpreter: 1 };
    expect(tallyOf(openaiResponses.answer(JSON.stringify(response)))).toMatchObject({
      tier: 'flex',
      hostedCalls,
    });
    // A stream names each item when it is done, and again at its end.
    const reader = openaiResponses.reader();
    const push = (event: object) => {
      const data = JSON.stringify(event);
      return reader.push({ event: undefined, data, raw: data });
    };
    const events = [
      ...push({ type: 'response.created', response: { id: 'r' } }),
      ...response.output.flatMap((item, output_index) =>
        push({ type: 'response.output_item.done', output_index, item }),
      ),
      ...push({ type: 'response.completed', response }),
    ];
    expect(tallyOf(events)).toMatchObject({ tier: 'flex', hostedCalls });
  });

  test('messages: searches and the tier, cumulative as all of its counts', () => {
    const meter = new UsageMeter();
    meter.read({
      input_tokens: 5,
      output_tokens: 1,
      service_tier: 'priority',
      server_tool_use: { web_search_requests: 1 },
    });
    const last = meter.read({ output_tokens: 9, server_tool_use: { web_search_requests: 2 } });
    expect(last).toMatchObject({ output: 9, tier: 'priority', hostedCalls: { web_search: 2 } });
    expect(new UsageMeter().read({ input_tokens: 1, service_tier: 'standard' })).not.toHaveProperty('tier');
  });

  test('google: tokens by modality, without those of the cache; searches, each query once', () => {
    const metadata = {
      promptTokenCount: 100,
      cachedContentTokenCount: 30,
      candidatesTokenCount: 20,
      promptTokensDetails: [
        { modality: 'TEXT', tokenCount: 10 },
        { modality: 'AUDIO', tokenCount: 80 },
        { modality: 'IMAGE', tokenCount: 10 },
      ],
      cacheTokensDetails: [{ modality: 'AUDIO', tokenCount: 30 }],
      candidatesTokensDetails: [{ modality: 'IMAGE', tokenCount: 15 }],
    };
    expect(new UsageReader().read(metadata)).toMatchObject({
      fresh: 70,
      cacheRead: 30,
      audioInput: 50,
      imageInput: 10,
      imageOutput: 15,
    });
    const chunk = (text: string, queries: string[]) => ({
      candidates: [
        {
          content: { parts: [{ text }] },
          finishReason: 'STOP',
          groundingMetadata: { webSearchQueries: queries },
        },
      ],
      usageMetadata: metadata,
    });
    const reader = google.reader();
    const tally = new AnswerTally();
    for (const one of [chunk('a', ['rain']), chunk('b', ['rain', 'snow'])]) {
      const data = JSON.stringify(one);
      tally.add(reader.push({ event: undefined, data, raw: data }));
    }
    tally.add(reader.end());
    expect(tally.usage?.hostedCalls).toEqual({ web_search: 2 });
  });
});
