import { isRecord } from '../../util/json.ts';
import { InputCounter, unknownSizeBytes } from '../core/input-counter.ts';

/** Counts the input of messages and tools. */
export class ChatInputCounter extends InputCounter {
  hasAudio = false;

  /**
   * Counts a value as indented JSON, which chat templates write: a line break and spaces before each value and each
   * closing bracket.
   */
  addJson(value: unknown): void {
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

  addMessage(message: unknown): void {
    this.parts++;
    if (!isRecord(message)) return;
    const { content, reasoning, reasoning_content: reasoningContent, reasoning_details: details } = message;
    if (Array.isArray(content)) for (const part of content) this.#addContentPart(part);
    else this.addText(content);
    this.addText(message['name']);
    this.addText(message['refusal']);
    this.addText(reasoning);
    if (reasoningContent !== reasoning) this.addText(reasoningContent);
    if (Array.isArray(details)) this.addJson(details);
    const { tool_calls: calls, function_call: call } = message;
    for (const each of [...(Array.isArray(calls) ? (calls as unknown[]) : []), call]) {
      if (isRecord(each)) this.addJson(each);
    }
  }

  #addContentPart(part: unknown): void {
    this.parts++;
    if (!isRecord(part)) return;
    switch (part['type']) {
      case 'text':
        this.addText(part['text']);
        return;
      case 'refusal':
        this.addText(part['refusal']);
        return;
      case 'image_url':
        this.images++;
        return;
      case 'file':
        this.#addNamedFile(part['file'], 'file_data');
        return;
      case 'input_audio':
        this.hasAudio = true;
        this.#addNamedFile(part['input_audio'], 'data');
        return;
      default:
        this.addJson(part);
        this.fileBytes += unknownSizeBytes;
    }
  }

  #addNamedFile(file: unknown, member: string): void {
    this.fileBytes += unknownSizeBytes;
    if (!isRecord(file)) return;
    this.addFile(file[member]);
    this.addText(file['filename']);
  }
}
