import { estimateOutputRoom } from '../catalog/price.ts';
import { callLimitFor } from '../catalog/hosted-calls.ts';
import type { Candidate } from '../catalog/types.ts';
import { invalidRequest, unsupported } from '../../wires/core/error.ts';
import { translationOf } from '../../wires/translation.ts';
import type {
  AnswerMetadata,
  ClientRequest,
  ClientWire,
  RequestFacts,
  Translation,
} from '../../wires/core/wire.ts';
import { OutgoingResponse } from '../../http/deliver.ts';
import type { IncomingRequest } from './incoming-request.ts';
import { answerBuffered } from './buffered-answer.ts';
import { admitRequest } from './admission.ts';
import type { GatewayServices } from './services.ts';
import type { JsonObjectBody } from './request-body.ts';
import { AnswerTally, toUpstreamFailure } from './relay.ts';
import { answerStreamed } from './streamed-answer.ts';
import { recordRequest, recordAnswer } from './span.ts';
import { type BackendAnswer, collectEvents } from '../../wires/core/backend.ts';
import type { UpstreamReply } from '../upstream/types.ts';
import type { AnswerEvent } from '../../wires/core/answer.ts';
import { contextWindowCheck } from './context-window.ts';
import { rejectUnpricedFeatures, usesUnpricedFeatures } from './unpriced-features.ts';
import { answerCheckFor } from './hook-checks.ts';
import { withoutReceipt } from './cache-slot.ts';
import { receiptComment, wantsReceiptComment } from './receipt-comment.ts';
import type { RequestContext } from './request-context.ts';

/** Answers a completion on any wire. @throws WireError @throws ClientGone */
export async function answerCompletion(
  services: GatewayServices,
  wire: ClientWire,
  incoming: IncomingRequest,
): Promise<OutgoingResponse> {
  const admitted = await admitRequest(services, incoming, {
    wire: wire.name,
    facts({ value, text }) {
      wantsReceiptComment(incoming.header);
      return wire.facts(value, text);
    },
    candidateCheck(facts, { value }) {
      const checkContextWindow = contextWindowCheck(facts, promptMembers(wire, value));
      return (candidate) => {
        checkFamily(wire, candidate, services);
        checkModel(wire, candidate, facts);
        rejectUnpricedFeatures(wire.name, candidate, value);
        checkContextWindow(candidate.model);
      };
    },
    maxTokensOf: (candidate, facts) => maxOutputTokensFor(wire, facts, candidate),
    isCacheable: (candidate, { value }) => !usesUnpricedFeatures(wire.name, candidate, value),
  });
  if (admitted instanceof OutgoingResponse) return admitted;
  const { parsed, hold, cacheSlot, hooks, maxTokensOf, abortSignal, detachClient, finish, finished } =
    admitted;
  const { facts, value, text } = parsed;
  const request: ClientRequest = { text, body: value, facts, header: incoming.header };
  recordRequest(incoming.span, text, () => wire.conversation(request));
  const translationFor = ({ model }: Candidate): Translation => translationOf(wire, model.provider.wire);
  const created = Math.floor(Date.now() / 1000);
  const { requestId } = incoming.receipt;
  const answerMetadata = ({ model }: Candidate): AnswerMetadata => ({
    requestId,
    model: model.id,
    created,
    request,
  });
  const { stream } = facts;
  const context: RequestContext = {
    services,
    incoming,
    facts,
    hold,
    cacheSlot,
    checkAnswer: answerCheckFor(services, incoming, {
      hooks,
      caller: parsed.caller,
      wire: wire.name,
      model: parsed.resolution.model.id,
      stream,
    }),
    bodyFor: (candidate) =>
      translationFor(candidate).request(request, {
        model: candidate.model,
        stream,
        maxTokens: maxTokensOf(candidate),
        ...hostedLimit(candidate, facts),
      }),
    failure: (candidate) => translationFor(candidate).failure,
    errorBody: wire.errorBody,
    abortSignal,
    detachClient,
    finish,
    finished,
  };
  // On the host's own wires the caller also gets the members that only the resident model has.
  const localMetadata = ({ resident }: BackendAnswer, candidate: Candidate): AnswerMetadata =>
    isOwnWire(wire) ? { ...answerMetadata(candidate), resident } : answerMetadata(candidate);
  if (stream)
    return await answerStreamed(context, {
      translate: (candidate) => translationFor(candidate).stream(answerMetadata(candidate)),
      rewrite: (candidate) => wire.writer(answerMetadata(candidate)),
      write: (reply, candidate) => wire.writer(localMetadata(reply, candidate)),
      receiptComment: (receipt) =>
        wantsReceiptComment(incoming.header) ? receiptComment(wire.name, receipt) : '',
      withoutReceipt: (end, receipt) => withoutReceipt(wire.name, end, receipt),
    });
  return await answerBuffered(context, async (reply, candidate) => {
    const answer = await readWholeAnswer(reply, {
      translate: (whole) => translationFor(candidate).answer(whole, answerMetadata(candidate)),
      write: (events, local) => JSON.stringify(wire.body(events, localMetadata(local, candidate))),
    });
    const tally = new AnswerTally();
    tally.recordedEvents = incoming.span?.transcript && [];
    tally.add(answer.events);
    if (tally.failure) throw toUpstreamFailure(tally.failure);
    recordAnswer(incoming.span, tally);
    return {
      text: answer.text(),
      usage: tally.usage ?? tally.estimateUsage(facts),
      isCacheable: tally.isCacheable,
      checked: {
        events: answer.events,
        write: (events) => ({ text: JSON.stringify(wire.body(events, answerMetadata(candidate))) }),
      },
    };
  });
}

/** Callers with a credential of their own pay the provider, without a limit of the gateway. */
function hostedLimit(
  { model, credential }: Candidate,
  facts: RequestFacts,
): { readonly maxHostedCalls?: number } {
  const maxHostedCalls = credential.kind === 'house' ? callLimitFor(model, facts) : undefined;
  return maxHostedCalls === undefined ? {} : { maxHostedCalls };
}

/** Whether the resident model answers this wire itself, without a translation. */
const isOwnWire = ({ name }: ClientWire): boolean => name === 'chat' || name === 'completions';

async function readWholeAnswer(
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
  const events = await collectEvents(local.events);
  return { text: () => write(events, local), events };
}

/** @throws WireError 400 when the model is of another family than the messages wire, unless the operator serves all of them there */
function checkFamily(wire: ClientWire, { model }: Candidate, { servesMessagesOfAll }: GatewayServices): void {
  if (wire.name !== 'messages' || model.provider.wire === 'anthropic-messages' || servesMessagesOfAll())
    return;
  throw invalidRequest(
    `${model.id} does not belong to the model family of the messages wire; use POST /v1/chat/completions or /v1/responses.`,
    { code: 'wrong_model_family', param: 'model' },
  );
}

/** @throws WireError 400 when the model lacks something that the request needs */
function checkModel(wire: ClientWire, { model }: Candidate, facts: RequestFacts): void {
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
function promptMembers(
  { name }: ClientWire,
  body: JsonObjectBody['value'],
): Record<string, readonly unknown[]> {
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
const defaultMaxTokens: Readonly<Record<ClientWire['name'], number>> = {
  chat: 4096,
  messages: 4096,
  responses: Number.POSITIVE_INFINITY,
  completions: 16,
};

/** Output limit of a request, in tokens. A default limit is reduced to leave room for the prompt. */
const maxOutputTokensFor = ({ name }: ClientWire, facts: RequestFacts, { model }: Candidate): number =>
  Math.min(
    facts.maxTokens ?? Math.min(defaultMaxTokens[name], estimateOutputRoom(model, facts)),
    model.maxOutputTokens,
  );
