import { AgentError } from '../../agent/errors.ts';
import { type GatewayEndpoint, GatewayChatModel } from '../../agent/gateway-chat-model.ts';
import type { ChatModel, ChatModels } from '../../agent/chat-model.ts';
import { HttpError } from '../../http/error.ts';
import type { Resident } from '../resident.ts';
import { requireKind } from '../turn/identity.ts';
import { ResidentChatModel } from './resident-chat-model.ts';

/** The chat models of agents: the resident model, and the models of a gateway where one is configured. */
export class HostChatModels implements ChatModels {
  readonly #resident: Resident;
  readonly #gateway: GatewayEndpoint | undefined;

  constructor({
    resident,
    gateway,
  }: { readonly resident: Resident; readonly gateway: GatewayEndpoint | undefined }) {
    this.#resident = resident;
    this.#gateway = gateway;
  }

  find(model: string): ChatModel {
    if (model === 'resident') return new ResidentChatModel(this.#resident, this.#residentId());
    if (this.#gateway) {
      const { models } = this.#gateway;
      if (!models || models.includes(model)) return new GatewayChatModel(this.#gateway, model);
      throw new AgentError(
        'unavailable',
        'model_not_offered',
        `The agent needs the model '${model.slice(0, 200)}', but [gateway] models of this host lists only ${models.join(', ')}.`,
      );
    }
    const message =
      `The agent needs the model '${model.slice(0, 200)}' of a gateway, but this host has none configured: set [gateway] url = ` +
      `"https://..." in its configuration, or set model = "resident" for the agent.`;
    throw new AgentError('unavailable', 'no_gateway', message);
  }

  get disclosure() {
    const { state } = this.#resident;
    const model = state.kind === 'ready' ? state.engine.model.id : null;
    if (!this.#gateway) {
      const disclosure = 'Agents run on the resident model of this host; nothing leaves it.';
      return { kind: 'resident', model, disclosure };
    }
    const { host } = new URL(this.#gateway.url);
    const disclosure =
      `Agents run on the resident model of this host. Those whose model names another one send their prompts, and ` +
      `what their tools read, to the gateway at ${host}.`;
    return { kind: 'resident+gateway', model, disclosure };
  }

  #residentId(): string {
    try {
      const { model } = this.#resident.requireModel().engine;
      requireKind(model, 'generate');
      return model.id;
    } catch (error) {
      if (error instanceof HttpError) {
        const hint = this.#gateway
          ? ` Or give the agent a model of the gateway: its \`model\` is 'resident'.`
          : '';
        throw new AgentError('unavailable', error.code ?? 'unavailable', error.message + hint, {
          cause: error,
        });
      }
      throw error;
    }
  }
}
