import { roomFor } from '../catalog/price.ts';
import type { Candidate } from '../catalog/types.ts';
import { invalidRequest, unsupported } from '../../wires/core/error.ts';
import { translationOf } from '../../wires/translation.ts';
import type {
  AnswerAbout,
  ClientRequest,
  ClientWire,
  RequestFacts,
  Translation,
} from '../../wires/core/wire.ts';
import { Answer } from '../../http/deliver.ts';
import type { Asked } from './asked.ts';
import { buffered } from './buffered.ts';
import { open } from './enter.ts';
import type { GatewayParts } from './parts.ts';
import type { JsonObjectBody } from './request-body.ts';
import { Tally, unserved } from './relay.ts';
import { streamed } from './streamed.ts';
import { sayRequest, tellAnswer } from './told.ts';
import { type BackendAnswer, collected } from '../../wires/core/backend.ts';
import type { UpstreamReply } from '../upstream/types.ts';
import type { AnswerEvent } from '../../wires/core/answer.ts';
import { checkWindow } from './window.ts';
import { refuseUnpriced } from './unpriced.ts';
import type { Work } from './work.ts';

/** Answers a completion on any wire. @throws WireError @throws ClientGone */
export async function complete(parts: GatewayParts, wire: ClientWire, asked: Asked): Promise<Answer> {
  const opened = await open(parts, asked, {
    wire: wire.name,
    facts: ({ value, text }) => wire.facts(value, text),
    check(candidate, facts, { value }) {
      checkModel(wire, candidate, facts);
      refuseUnpriced(wire.name, candidate, value);
      checkWindow(candidate.model, facts, promptsOf(wire, value));
    },
    maxTokensOf: (candidate, facts) => outputLimit(wire, facts, candidate),
  });
  if (opened instanceof Answer) return opened;
  const { entered, purchase, maxTokensOf, givenUp, left, over } = opened;
  const { facts, value, text } = entered;
  const request: ClientRequest = { text, body: value, facts, header: asked.header };
  sayRequest(asked.told, text, () => wire.conversation(request));
  const translation = ({ model }: Candidate): Translation => translationOf(wire, model.provider.wire);
  const created = Math.floor(Date.now() / 1000);
  const { requestId } = asked.receipt;
  const about = ({ model }: Candidate): AnswerAbout => ({ requestId, model: model.id, created, request });
  const { stream } = facts;
  const work: Work = {
    parts,
    asked,
    facts,
    purchase,
    bodyFor: (candidate) =>
      translation(candidate).request(request, {
        model: candidate.model,
        stream,
        maxTokens: maxTokensOf(candidate),
      }),
    failure: (candidate) => translation(candidate).failure,
    errorBody: wire.errorBody,
    givenUp,
    left,
    over,
  };
  // On the host's own wires the caller also gets the members that only the resident model has.
  const localAbout = ({ resident }: BackendAnswer, candidate: Candidate): AnswerAbout =>
    isOwnWire(wire) ? { ...about(candidate), resident } : about(candidate);
  if (stream)
    return await streamed(work, {
      translate: (candidate) => translation(candidate).stream(about(candidate)),
      write: (reply, candidate) => wire.writer(localAbout(reply, candidate)),
    });
  return await buffered(work, async (reply, candidate) => {
    const answer = await wholeOf(reply, {
      translate: (whole) => translation(candidate).answer(whole, about(candidate)),
      write: (events, local) => JSON.stringify(wire.body(events, localAbout(local, candidate))),
    });
    const tally = new Tally();
    tally.kept = asked.told?.said && [];
    tally.add(answer.events);
    if (tally.failure) throw unserved(tally.failure);
    tellAnswer(asked.told, tally);
    return { text: answer.text(), usage: tally.usage ?? tally.estimated(facts) };
  });
}

/** Whether the resident model answers this wire itself, without a translation. */
const isOwnWire = ({ name }: ClientWire): boolean => name === 'chat' || name === 'completions';

async function wholeOf(
  reply: UpstreamReply,
  {
    translate,
    write,
  }: {
    readonly translate: (text: string) => ReturnType<Translation['answer']>;
    readonly write: (events: readonly AnswerEvent[], local: BackendAnswer) => string;
  },
): Promise<{ readonly text: () => string; readonly events: readonly AnswerEvent[] }> {
  const { local } = reply;
  if (!local) {
    const { text, events } = translate(await reply.text());
    return { text: () => text, events };
  }
  const events = await collected(local.events);
  return { text: () => write(events, local), events };
}

/** @throws WireError 400 when the model lacks something that the request needs */
function checkModel(wire: ClientWire, { model }: Candidate, facts: RequestFacts): void {
  if (wire.name === 'messages' && model.provider.wire !== 'anthropic-messages')
    throw invalidRequest(
      `${model.id} does not belong to the model family of the messages wire; use POST /v1/chat/completions or /v1/responses.`,
      { code: 'wrong_model_family', param: 'model' },
    );
  const needed = wire.name === 'completions' ? 'completions' : 'chat';
  if (!model.caps.has(needed))
    throw unsupported('model', `${model.id} has no capability '${needed}', which this route needs.`);
  const missing = facts.needs.find(({ cap }) => !model.caps.has(cap));
  if (missing)
    throw unsupported(
      missing.param,
      `${model.id} has no capability '${missing.cap}', which '${missing.param}' needs.`,
    );
  if (facts.maxTokens !== undefined && facts.maxTokens > model.maxOutputTokens)
    throw invalidRequest(
      `The limit of ${facts.maxTokens} output tokens is above the maximum of ${model.id}, which is ${model.maxOutputTokens}.`,
      { param: wire.name === 'responses' ? 'max_output_tokens' : 'max_tokens' },
    );
}

/**
 * The request members that must fit the context window, each with its prompts: every prompt has a window of its own.
 * Empty when the provider may shorten the conversation.
 */
function promptsOf({ name }: ClientWire, body: JsonObjectBody['value']): Record<string, readonly unknown[]> {
  const { messages, prompt, input } = body;
  switch (name) {
    case 'completions': {
      const isList = Array.isArray(prompt) && typeof prompt[0] !== 'number';
      return { prompt: isList ? prompt : [prompt] };
    }
    case 'responses':
      return body['truncation'] === 'auto' || body['context_management'] ? {} : { input: [input] };
    case 'messages':
      return body['context_management'] ? {} : { messages: [messages] };
    case 'chat':
      return { messages: [messages] };
  }
}

/** Output limits that apply when the caller sets none, in tokens. */
const defaultTokens: Readonly<Record<ClientWire['name'], number>> = {
  chat: 4096,
  messages: 4096,
  responses: Number.POSITIVE_INFINITY,
  completions: 16,
};

/** Output limit of a request, in tokens. A default limit is reduced to leave room for the prompt. */
const outputLimit = ({ name }: ClientWire, facts: RequestFacts, { model }: Candidate): number =>
  Math.min(facts.maxTokens ?? Math.min(defaultTokens[name], roomFor(model, facts)), model.maxOutputTokens);
