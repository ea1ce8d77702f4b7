import type { z } from 'zod';
import { jsonLines } from '../../http/stream.ts';
import { chatTraits, type Thinking } from '../../chat/index.ts';
import type { Engine } from '../../engine/index.ts';
import { HttpError } from '../../http/error.ts';
import type { AnswerBatches } from '../../wires/core/backend.ts';
import { type answerMembers, isZero } from '../../wires/ollama/options-schema.ts';
import { loadedBody, type OllamaAbout, ollamaWire } from '../../wires/ollama/writer.ts';
import type { ModelDefaults, ModelStore } from '../model-store.ts';
import type { ReadyModel, Resident } from '../resident.ts';
import { respond, type RouteVisit } from '../turn/respond.ts';
import { Clock } from './clock.ts';
import { defaultsOf, nameOf, useModel } from './model.ts';
import { type Drawing, toDrawing } from './options.ts';

/** How a route answers a request. */
interface Answers {
  /** The request has no input: the model is only loaded. */
  readonly asksNothing: boolean;
  /** The request member with the text. */
  readonly param: 'prompt' | 'messages';
  readonly form: OllamaAbout['form'];
  readonly start: (ready: ReadyModel, drawing: Drawing, defaults: ModelDefaults) => Promise<Started>;
}

interface Started extends Pick<OllamaAbout, 'atEnd'> {
  readonly events: AnswerBatches;
}

/** Answers a request of /api/chat or /api/generate, in lines or in one body. */
export async function answer(
  { resident, store }: { readonly resident: Resident; readonly store: ModelStore },
  body: z.infer<z.ZodObject<typeof answerMembers>>,
  { asHttpError, ...visit }: RouteVisit,
  { asksNothing, param, form, start }: Answers,
): Promise<Response> {
  const clock = new Clock();
  const model = nameOf(body);
  const about = { model, clock, form };
  const ready = await useModel(resident, model, visit, asksNothing ? undefined : 'generate');
  clock.loaded();
  if (asksNothing) return Response.json(loadedBody(about, isZero(body.keep_alive)));
  const { engine } = ready;
  requireThinking(engine, model, body.think);
  const defaults = await defaultsOf(store, model, ready);
  const options = { ...defaults.parameters, ...body.options };
  const drawing = toDrawing(options, engine.model.contextLength, body, param);
  const { events, ...more } = await start(ready, drawing, defaults);
  const answered = { events, about: { ...about, ...more } };
  const contentType = jsonLines;
  return await respond(ollamaWire, answered, { stream: body.stream !== false, contentType, asHttpError });
}

/** Refuses `think` where the model does not support it. */
function requireThinking(engine: Engine, asked: string, think: Thinking | null | undefined): void {
  if (!think || chatTraits(engine).reasoning) return;
  const message = `"${asked.slice(0, 200)}" does not support thinking; leave 'think' out`;
  throw new HttpError(400, 'unsupported_parameter', message, { param: 'think' });
}
