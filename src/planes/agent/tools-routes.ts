import { z } from 'zod';
import type { Toolbox } from '../../agent/services.ts';
import { toolCatalogEntry } from '../../agent/shapes/tool.ts';
import { defineRoute, type Route } from '../../http/route.ts';

const catalog = z.array(toolCatalogEntry).meta({ id: 'ToolCatalog' });

export const toolRoutes = (toolbox: Pick<Toolbox, 'catalog'>): Route[] => [
  defineRoute({
    method: 'GET',
    path: '/agent/v1/tools',
    operationId: 'listTools',
    summary: 'The tools that agents may be granted',
    description:
      '`available` ones run at once, `gated` ones only when a person approves the staged change, `unavailable` ones not at all; `reason` says why.',
    answers: {
      200: { description: 'An entry a tool, in a steady order.', content: { 'application/json': catalog } },
    },
    handle: async () => Response.json(await toolbox.catalog()),
  }),
];
