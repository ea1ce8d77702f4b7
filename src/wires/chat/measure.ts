import { isRecord } from '../../util/json.ts';
import { Measure, unknownSize } from '../core/measure.ts';

/** Counts the input of messages and tools. */
export class ChatMeasure extends Measure {
  /**
   * Counts a value as indented JSON, which chat templates write: a line break and spaces before each value and each
   * closing bracket.
   */
  json(value: unknown): void {
    this.parts++;
    const text = JSON.stringify(value) ?? '';
    this.textBytes += Buffer.byteLength(text);
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at);
      // , : [ ] { }
      if (code === 0x2c || code === 0x3a || (code | 0x20) === 0x7b || (code | 0x20) === 0x7d)
        this.textBytes += 2;
    }
  }

  message(message: unknown): void {
    this.parts++;
    if (!isRecord(message)) return;
    const { content, reasoning, reasoning_content: thoughts, reasoning_details: details } = message;
    if (Array.isArray(content)) for (const part of content) this.#part(part);
    else this.text(content);
    this.text(message['name']);
    this.text(message['refusal']);
    this.text(reasoning);
    if (thoughts !== reasoning) this.text(thoughts);
    if (Array.isArray(details)) this.json(details);
    const { tool_calls: calls, function_call: call } = message;
    for (const each of [...(Array.isArray(calls) ? (calls as unknown[]) : []), call]) {
      if (isRecord(each)) this.json(each);
    }
  }

  #part(part: unknown): void {
    this.parts++;
    if (!isRecord(part)) return;
    switch (part['type']) {
      case 'text':
        this.text(part['text']);
        return;
      case 'refusal':
        this.text(part['refusal']);
        return;
      case 'image_url':
        this.images++;
        return;
      case 'file':
        this.#named(part['file'], 'file_data');
        return;
      case 'input_audio':
        this.#named(part['input_audio'], 'data');
        return;
      default:
        this.json(part);
        this.fileBytes += unknownSize;
    }
  }

  #named(file: unknown, member: string): void {
    this.fileBytes += unknownSize;
    if (!isRecord(file)) return;
    this.file(file[member]);
    this.text(file['filename']);
  }
}
