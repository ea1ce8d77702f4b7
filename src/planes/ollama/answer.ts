import type { z } from 'zod';
import { ndjsonType } from '../../http/stream.ts';
import { getChatTraits, type Thinking } from '../../chat/index.ts';
import type { Engine } from '../../engine/index.ts';
import { HttpError } from '../../http/error.ts';
import type { AnswerBatches } from '../../wires/core/backend.ts';
import { type answerMembers, isZeroDuration } from '../../wires/ollama/options-schema.ts';
import { createLoadedBody, type OllamaAnswerMetadata, ollamaWire } from '../../wires/ollama/writer.ts';
import type { ModelDefaults, ModelStore } from '../model-store.ts';
import type { ReadyModel, Resident } from '../resident.ts';
import { respond, type RouteCompletionContext } from '../turn/respond.ts';
import { AnswerClock } from './answer-clock.ts';
import { readModelDefaults, requireModelName, unloadModel, useModel } from './model.ts';
import { type GenerationOptions, toGenerationOptions } from './options.ts';

/** Response header with the number of messages that the context could not hold. */
const droppedMessagesHeader = 'x-lathe-dropped-messages';

/** How a route answers a request. */
interface AnswerRoute {
  /** The request has no input: the model is only loaded. */
  readonly isLoadOnly: boolean;
  /** The request member with the text. */
  readonly param: 'prompt' | 'messages';
  readonly formatPiece: OllamaAnswerMetadata['formatPiece'];
  readonly start: (
    ready: ReadyModel,
    generation: GenerationOptions,
    defaults: ModelDefaults,
  ) => Promise<StartedAnswer>;
}

interface StartedAnswer extends Pick<OllamaAnswerMetadata, 'finalMembers'> {
  readonly events: AnswerBatches;
  /** Number of messages of the conversation that the model did not get. */
  readonly droppedMessages?: number;
}

/** Answers a request of /api/chat or /api/generate, in lines or in one body. */
export async function answer(
  { resident, store }: { readonly resident: Resident; readonly store: ModelStore },
  body: z.infer<z.ZodObject<typeof answerMembers>>,
  { asHttpError, ...context }: RouteCompletionContext,
  { isLoadOnly, param, formatPiece, start }: AnswerRoute,
): Promise<Response> {
  const clock = new AnswerClock();
  const model = requireModelName(body);
  const metadata = { model, clock, formatPiece };
  const { keep_alive: keepAlive } = body;
  if (isLoadOnly && resident.keepsSeveral && isZeroDuration(keepAlive)) {
    // Nothing is loaded only to be closed.
    await unloadModel(resident, model);
    return Response.json(createLoadedBody(metadata, true));
  }
  const use = { requestedModel: model, keepAlive };
  const ready = await useModel(resident, use, context, isLoadOnly ? undefined : 'generate');
  clock.markLoaded();
  if (isLoadOnly) return Response.json(createLoadedBody(metadata, isZeroDuration(keepAlive)));
  const { engine } = ready;
  requireThinking(engine, model, body.think);
  const name = resident.aliases.resolve(model) ?? engine.model.id;
  const defaults = await readModelDefaults(resident, store, name, ready);
  const options = { ...defaults.parameters, ...body.options };
  const generation = toGenerationOptions(options, engine.model.contextLength, body, param);
  const { events, droppedMessages = 0, finalMembers } = await start(ready, generation, defaults);
  const members = () => ({
    ...finalMembers?.(),
    ...(droppedMessages === 0 ? {} : { dropped_messages: droppedMessages }),
  });
  const { seed } = generation.sampling;
  const answerStream = { events, metadata: { ...metadata, finalMembers: members }, seed };
  const response = await respond(ollamaWire, answerStream, {
    stream: body.stream !== false,
    contentType: ndjsonType,
    asHttpError,
  });
  if (droppedMessages > 0) response.headers.set(droppedMessagesHeader, String(droppedMessages));
  return response;
}

/** Refuses `think` where the model does not support it. */
function requireThinking(engine: Engine, requestedModel: string, think: Thinking | null | undefined): void {
  if (!think || getChatTraits(engine).reasoning) return;
  const message = `"${requestedModel.slice(0, 200)}" does not support thinking; leave 'think' out`;
  throw new HttpError(400, 'unsupported_parameter', message, { param: 'think' });
}
