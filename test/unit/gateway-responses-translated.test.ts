import { readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { AnswerEvent } from '../../src/wires/core/answer.ts';
import { openaiChat } from '../../src/wires/chat/upstream.ts';
import { google } from '../../src/wires/google/index.ts';
import { anthropicMessages } from '../../src/wires/messages/upstream.ts';
import { responsesWire } from '../../src/wires/responses/client.ts';
import { openaiResponses } from '../../src/wires/responses/upstream.ts';
import { recordedFrames } from '../support/gateway/cassettes.ts';
import { framesOf, payloadsOf } from '../support/gateway/frames.ts';
import { openApiDocument, schemaFaults } from '../support/gateway/schemas.ts';
import { clientRequest, merged, streamed } from '../support/gateway-responses.ts';
import { describeShared } from '../support/shared.ts';

const root = 'data/cassettes';

describeShared(
  'streams recorded with other providers, written as responses',
  [root, openApiDocument],
  (folder) => {
    const recordings = (
      [
        ['anthropic', anthropicMessages],
        ['google', google],
        ['mistral', openaiChat],
        ['deepseek-chat', openaiChat],
      ] as const
    ).flatMap(([provider, wire]) =>
      readdirSync(`${folder}/${provider}`)
        .filter((file) => file.endsWith('.chunks.txt'))
        .map((file) => [`${provider}/${file.replace('.chunks.txt', '')}`, wire] as const),
    );

    test.each(recordings)('%s', (name, wire) => {
      const reader = wire.reader();
      const events = [...recordedFrames(name).flatMap((frame) => reader.push(frame)), ...reader.end()];
      expect(events.filter(({ type }) => type === 'failure')).toEqual([]);
      const text = streamed(events);
      const written = payloadsOf(text);
      for (const event of written) expect(schemaFaults('responses', 'chunk', event)).toEqual([]);
      const again = openaiResponses.reader();
      const read = framesOf(text).flatMap((frame) => again.push(frame));
      const contentOf = (list: readonly AnswerEvent[], type: AnswerEvent['type']) =>
        merged(list)
          .flatMap((event) => (event.type === type && 'text' in event ? [event.text] : []))
          .join('');
      for (const type of ['text', 'refusal', 'reasoning'] as const)
        expect(contentOf(read, type)).toBe(contentOf(events, type));
      const used = events.findLast((event) => event.type === 'usage')?.usage;
      const reportedUsage = read.find((event) => event.type === 'usage')?.usage;
      expect(reportedUsage?.output).toBe(used?.output);
      expect(reportedUsage && reportedUsage.fresh + reportedUsage.cacheRead + reportedUsage.cacheWrite).toBe(
        used && used.fresh + used.cacheRead + used.cacheWrite + used.cacheWrite1h,
      );
      // The items contain all calls, and the encrypted parts of the calls and of the reasoning.
      const last = written.at(-1) as { response: { output: unknown[] } };
      const parts = responsesWire
        .conversation(clientRequest({ model: 'm', input: last.response.output }))
        .messages.flatMap((message) => message.parts);
      const seals = (list: readonly object[]) =>
        list
          .flatMap((each) => [
            'signature' in each ? each.signature : undefined,
            'data' in each ? each.data : undefined,
          ])
          .filter((seal) => seal !== undefined);
      expect(seals(parts)).toEqual(seals(events));
      const calls = (list: readonly { readonly type: string; readonly id?: string }[]) =>
        list.flatMap(({ type, id }) => (type === 'tool_call' ? [id] : []));
      expect(calls(parts)).toEqual(calls(events));
    });
  },
);
