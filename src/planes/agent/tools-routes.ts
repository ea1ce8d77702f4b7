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
    summary: 'List the tools that agents may be granted',
    description:
      '`available` tools run at once, `gated` tools only after a person approves the staged change, `unavailable` tools not at all; `reason` says why.',
    responses: {
      200: {
        description: 'One entry per tool, in a stable order.',
        content: { 'application/json': catalog },
      },
    },
    handle: async () => Response.json(await toolbox.catalog()),
  }),
];
