import { loadChat } from '../engine/create-chat.ts';
import { embeddedModelUrl } from '../engine/embedded-model-url.ts';
import type { Chat, ChatOptions } from '../engine/types.ts';
import { isStaticSite } from './is-static-site.ts';

/** `createChat` of the engine. In the build for hosts the worker's file is outside of the service worker's scope. */
export const createChat = (options: ChatOptions): Promise<Chat> =>
  loadChat(options, embeddedModelUrl, { hasServiceWorkerOfPage: !isStaticSite });
