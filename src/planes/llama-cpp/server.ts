import { z } from 'zod';
import type { Engine } from '../../engine/index.ts';
import { errorResponse, unavailableResponses } from './error-responses.ts';
import { HttpError } from '../../http/error.ts';
import type { ModelStore } from '../model-store.ts';
import type { Resident } from '../resident.ts';
import { defineRoute, type Route } from '../../http/route.ts';
import { modelRoutes } from '../v1/models.ts';
import { completionMembers } from '../../wires/llama-cpp/request-schema.ts';
import { type Props, props, type Slots, slots } from './server-schema.ts';
import { toSampling, toSettings } from './settings.ts';

/** Routes that clients call before their first request. */
export function serverRoutes(resident: Resident, store: ModelStore, version: string): Route[] {
  const getProps = defineRoute({
    method: 'GET',
    path: '/props',
    operationId: 'llamaCppProps',
    summary: 'Get the properties of the server',
    responses: {
      200: { description: 'Defaults, template and size.', content: { 'application/json': props } },
      ...unavailableResponses,
    },
    handle: () => Response.json(toProps(resident.requireModel().engine, version)),
  });
  const setProps = defineRoute({
    method: 'POST',
    path: '/props',
    operationId: 'llamaCppSetProps',
    summary: 'Always refused: properties cannot be changed',
    responses: { 501: errorResponse('Always refused.') },
    handle() {
      throw new HttpError(
        501,
        'not_supported',
        'The properties of this server cannot be changed by requests.',
      );
    },
  });
  const getSlots = defineRoute({
    method: 'GET',
    path: '/slots',
    operationId: 'llamaCppSlots',
    summary: 'Get the number of running answers',
    description: 'Answers have no fixed slots; as many slots are marked busy as answers run.',
    query: { fail_on_no_slot: '`1`: answer 503 where no slot is free.' },
    responses: {
      200: { description: 'One entry per slot.', content: { 'application/json': slots } },
      503: errorResponse('No model is resident, the model is loading, or no slot is free.'),
    },
    handle({ query }) {
      const slotList = toSlots(resident.requireModel().engine);
      if (query.get('fail_on_no_slot') === '1' && slotList.every((slot) => slot.is_processing)) {
        throw new HttpError(503, 'no_slot_available', 'no slot available', {
          headers: { 'retry-after': '1' },
        });
      }
      return Response.json(slotList);
    },
  });
  return [getProps, setProps, getSlots, modelsRoute(resident, store)];
}

/** The same list as `GET /v1/models`. */
function modelsRoute(resident: Resident, store: ModelStore): Route {
  const listModels = modelRoutes(resident, store).find(({ path }) => path === '/v1/models');
  if (!listModels) throw new Error('there is no list of models');
  const { 200: listResponse } = listModels.responses;
  return {
    ...listModels,
    path: '/models',
    operationId: 'llamaCppModels',
    responses: {
      ...(listResponse ? { 200: listResponse } : {}),
      503: errorResponse('The model is loading.'),
    },
  };
}

/** A request without options. */
const defaultOptions = z.object(completionMembers).parse({});

function toProps(engine: Engine, version: string): Props {
  const { model, tokenizer, chatTemplate } = engine;
  const tokenText = (id: number | undefined) => (id === undefined ? '' : tokenizer.tokenText(id));
  return {
    default_generation_settings: {
      n_ctx: model.contextLength,
      params: toSettings(defaultOptions, {
        sampling: toSampling(defaultOptions, engine, () => -1),
        stop: [],
        engine,
      }),
    },
    total_slots: engine.stats().slots,
    model_alias: model.id,
    model_path: model.id,
    chat_template: chatTemplate?.source ?? '',
    chat_template_caps: {},
    modalities: { vision: false, audio: false },
    pooling_type: model.pooling,
    bos_token: tokenText(tokenizer.bosId),
    eos_token: tokenText(tokenizer.eosId),
    build_info: `lathe ${version}`,
    is_sleeping: false,
  };
}

function toSlots(engine: Engine): Slots {
  const { slots: count, running } = engine.stats();
  return Array.from({ length: count }, (_, id) => ({
    id,
    n_ctx: engine.model.contextLength,
    is_processing: id < running,
  }));
}
