import { isJson } from '../../util/json.ts';
import { createId } from './common-members.ts';
import { CustomInputReader } from './custom-input.ts';
import {
  added,
  type CalledTool,
  done,
  type ItemStatus,
  type OpenItem,
  type UnnumberedEvent,
} from './open-items.ts';

/** The call of a custom tool by the resident model. */
export class OpenCustomCall implements OpenItem {
  readonly #id = createId('ctc', true);
  readonly #index: number;
  readonly #tool: CalledTool;
  readonly #reader = new CustomInputReader();
  #arguments = '';

  constructor(index: number, tool: CalledTool) {
    this.#index = index;
    this.#tool = tool;
  }

  /** Whether the arguments are complete JSON. */
  get isComplete(): boolean {
    return isJson(this.#arguments);
  }

  begin(): UnnumberedEvent[] {
    return [added(this.#index, { ...this.item('in_progress'), input: '' })];
  }

  /** @param piece of the arguments, JSON */
  addDelta(piece: string): UnnumberedEvent[] {
    this.#arguments += piece;
    const delta = this.#reader.push(piece);
    if (delta === '') return [];
    return [{ type: 'response.custom_tool_call_input.delta', ...this.#reference(), delta }];
  }

  end(status: ItemStatus): UnnumberedEvent[] {
    const { text: input } = this.#reader;
    return [
      { type: 'response.custom_tool_call_input.done', ...this.#reference(), input },
      done(this.#index, this.item(status)),
    ];
  }

  /** A truncated call is incomplete, whatever ended the answer, so that clients do not run it. */
  item(requestedStatus: ItemStatus): object {
    const status = requestedStatus === 'completed' && !this.isComplete ? 'incomplete' : requestedStatus;
    const { callId: call_id, name } = this.#tool;
    return { id: this.#id, type: 'custom_tool_call', status, call_id, name, input: this.#reader.text };
  }

  #reference() {
    return { item_id: this.#id, output_index: this.#index };
  }
}
