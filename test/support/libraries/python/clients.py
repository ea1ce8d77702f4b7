"""Runs the Python clients for test/support/libraries/python.ts: a JSON request a line in, a JSON result a line out.

A request names a wire, an operation and its arguments, and says where the server is. A result is {"value": ...} or, where the
client raised an error of its own, {"error": its class, "status": the status of the response}.
"""

import asyncio
import functools
import json
import sys

import anthropic
import openai
import pydantic


class Person(pydantic.BaseModel):
    name: str
    age: int


class OpenAIWire:
    def __init__(self, url, key, model):
        self.model = model
        self.options = {"base_url": f"{url}/v1", "api_key": key, "max_retries": 0}
        self.client = openai.OpenAI(**self.options)

    def embed(self, texts):
        return [row.embedding for row in self.client.embeddings.create(model=self.model, input=texts).data]


class Chat(OpenAIWire):
    def ask(self, text):
        answer = self.client.chat.completions.create(model=self.model, messages=user(text))
        return {"text": answer.choices[0].message.content, "usage": chat_usage(answer.usage)}

    def stream(self, text):
        async def read():
            pieces, usage = [], None
            async with openai.AsyncOpenAI(**self.options) as client:
                stream = await client.chat.completions.create(
                    model=self.model, messages=user(text), stream=True, stream_options={"include_usage": True}
                )
                async for chunk in stream:
                    usage = chunk.usage or usage
                    pieces += [choice.delta.content for choice in chunk.choices if choice.delta.content]
            return {"pieces": pieces, "usage": chat_usage(usage)}

        return asyncio.run(read())

    def converse(self, text, weather, results, streams):
        tools = [{"type": "function", "function": weather}]
        messages = user(text)

        def ask():
            if not streams:
                answer = self.client.chat.completions.create(model=self.model, messages=messages, tools=tools)
                return answer.choices[0].message
            with self.client.chat.completions.stream(model=self.model, messages=messages, tools=tools) as stream:
                return stream.get_final_completion().choices[0].message

        first = ask()
        calls = [(call.id, json.loads(call.function.arguments)) for call in first.tool_calls]
        messages.append(first.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
        for id, arguments in calls:
            messages.append({"role": "tool", "tool_call_id": id, "content": results[arguments["city"]]})
        return {"calls": [arguments for _, arguments in calls], "text": ask().content}

    def parse(self, text):
        answer = self.client.chat.completions.parse(
            model=self.model, messages=user(text), response_format=Person
        )
        return answer.choices[0].message.parsed.model_dump()

    def call(self, text, name):
        answer = self.client.chat.completions.parse(
            model=self.model,
            messages=user(text),
            tools=[openai.pydantic_function_tool(Person, name=name)],
            tool_choice={"type": "function", "function": {"name": name}},
        )
        return answer.choices[0].message.tool_calls[0].function.parsed_arguments.model_dump()

    def leave(self, text):
        stream = self.client.chat.completions.create(model=self.model, messages=user(text), stream=True)
        with stream:
            for _ in stream:
                break


class Responses(OpenAIWire):
    def ask(self, text):
        answer = self.client.responses.create(model=self.model, input=text)
        return {"text": answer.output_text, "usage": token_usage(answer.usage)}

    def stream(self, text):
        async def read():
            pieces = []
            async with openai.AsyncOpenAI(**self.options) as client:
                async with client.responses.stream(model=self.model, input=text) as stream:
                    async for event in stream:
                        if event.type == "response.output_text.delta":
                            pieces.append(event.delta)
                    final = await stream.get_final_response()
            return {"pieces": pieces, "usage": token_usage(final.usage)}

        return asyncio.run(read())

    def converse(self, text, weather, results, streams):
        tools = [{"type": "function", "strict": False, **weather}]
        items = user(text)

        def ask():
            if not streams:
                return self.client.responses.create(model=self.model, input=items, tools=tools)
            with self.client.responses.stream(model=self.model, input=items, tools=tools) as stream:
                return stream.get_final_response()

        first = ask()
        calls = [item for item in first.output if item.type == "function_call"]
        items += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in first.output]
        for call in calls:
            output = results[json.loads(call.arguments)["city"]]
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
        return {"calls": [json.loads(call.arguments) for call in calls], "text": ask().output_text}

    def parse(self, text):
        answer = self.client.responses.parse(model=self.model, input=text, text_format=Person)
        return answer.output_parsed.model_dump()

    def call(self, text, name):
        answer = self.client.responses.parse(
            model=self.model,
            input=text,
            tools=[openai.pydantic_function_tool(Person, name=name)],
            tool_choice={"type": "function", "name": name},
        )
        return answer.output[0].parsed_arguments.model_dump()

    def continue_stored(self, texts):
        answer = None
        for text in texts:
            previous = answer.id if answer else None
            answer = self.client.responses.create(model=self.model, input=text, previous_response_id=previous)
        return answer.output_text

    def leave(self, text):
        stream = self.client.responses.create(model=self.model, input=text, stream=True)
        with stream:
            for event in stream:
                if event.type == "response.output_text.delta":
                    break


class Messages:
    def __init__(self, url, key, model):
        self.model = {"model": model, "max_tokens": 2000}
        self.options = {"base_url": url, "api_key": key, "max_retries": 0}
        self.client = anthropic.Anthropic(**self.options)

    def ask(self, text):
        answer = self.client.messages.create(**self.model, messages=user(text))
        return {"text": text_of(answer), "usage": token_usage(answer.usage)}

    def stream(self, text):
        async def read():
            pieces = []
            async with anthropic.AsyncAnthropic(**self.options) as client:
                async with client.messages.stream(**self.model, messages=user(text)) as stream:
                    async for piece in stream.text_stream:
                        pieces.append(piece)
                    final = await stream.get_final_message()
            return {"pieces": pieces, "usage": token_usage(final.usage)}

        return asyncio.run(read())

    def converse(self, text, weather, results, streams):
        tools = [
            {
                "name": weather["name"],
                "description": weather["description"],
                "input_schema": weather["parameters"],
            }
        ]
        messages = user(text)

        def ask():
            if not streams:
                return self.client.messages.create(**self.model, messages=messages, tools=tools)
            with self.client.messages.stream(**self.model, messages=messages, tools=tools) as stream:
                return stream.get_final_message()

        first = ask()
        calls = [block for block in first.content if block.type == "tool_use"]
        messages.append({"role": "assistant", "content": first.content})
        messages.append(
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": call.id, "content": results[call.input["city"]]}
                    for call in calls
                ],
            }
        )
        return {"calls": [call.input for call in calls], "text": text_of(ask())}

    def parse(self, text):
        answer = self.client.messages.parse(**self.model, messages=user(text), output_format=Person)
        return answer.parsed_output.model_dump()

    def call(self, text, name):
        answer = self.client.messages.create(
            **self.model,
            messages=user(text),
            tools=[{"name": name, "input_schema": Person.model_json_schema()}],
            tool_choice={"type": "tool", "name": name},
        )
        return answer.content[0].input

    def leave(self, text):
        with self.client.messages.stream(**self.model, messages=user(text)) as stream:
            for _ in stream.text_stream:
                break


def user(text):
    return [{"role": "user", "content": text}]


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


def chat_usage(usage):
    return [usage.prompt_tokens, usage.completion_tokens]


def token_usage(usage):
    return [usage.input_tokens, usage.output_tokens]


wires = {"chat": Chat, "responses": Responses, "messages": Messages}


@functools.cache
def wire_at(name, url, key, model):
    return wires[name](url, key, model)


def run(request):
    wire = wire_at(request["wire"], request["url"], request["key"], request["model"])
    try:
        return {"value": getattr(wire, request["operation"])(**request["arguments"])}
    except (openai.APIStatusError, anthropic.APIStatusError) as error:
        return {"error": type(error).__name__, "status": error.status_code}


for line in sys.stdin:
    print(json.dumps(run(json.loads(line))), flush=True)
