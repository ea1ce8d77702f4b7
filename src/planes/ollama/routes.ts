import type { ModelStore } from '../model-store.ts';
import type { Resident } from '../resident.ts';
import type { Plane } from '../../http/route.ts';
import { blobRoutes } from './blobs.ts';
import { chatRoute } from './chat.ts';
import { createRoute } from './create.ts';
import { embedRoutes } from './embed.ts';
import { ollamaEnvelope, ollamaError } from '../../wires/ollama/error.ts';
import { generateRoute } from './generate.ts';
import { manageRoutes } from './manage.ts';
import { pullRoute } from './pull.ts';
import { serviceRoutes } from './service.ts';
import { showRoute } from './show.ts';
import { listRoutes } from './tags.ts';

interface OllamaPlaneOptions {
  readonly resident: Resident;
  readonly store: ModelStore;
  readonly version: string;
  /** Whether conversations that exceed the context lose their oldest messages by default. Default: true. */
  readonly truncatesChats?: boolean | undefined;
}

export function ollamaPlane({ resident, store, version, truncatesChats = true }: OllamaPlaneOptions): Plane {
  return {
    name: 'ollama',
    summary: "Ollama's wire: completions, embeddings and stored models.",
    isPublicWire: true,
    prefixes: ['/api'],
    envelope: ollamaEnvelope,
    errorSchema: ollamaError,
    routes: [
      ...serviceRoutes(version),
      generateRoute(resident, store),
      chatRoute(resident, store, truncatesChats),
      ...embedRoutes(resident),
      ...listRoutes(resident, store),
      showRoute(resident, store),
      pullRoute(store),
      createRoute(resident, store),
      ...blobRoutes(store),
      ...manageRoutes(resident, store),
    ],
  };
}
