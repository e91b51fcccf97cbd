import type { Readable } from 'node:stream';
import {
  type CallOptions,
  type ChannelCredentials,
  type ChannelOptions,
  type Client,
  type ClientDuplexStream,
  type ClientUnaryCall,
  type handleBidiStreamingCall,
  type handleUnaryCall,
  type Metadata,
  makeClientConstructor,
  type requestCallback,
  type Server,
  type ServerDuplexStream,
  type ServiceDefinition,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import { fromJSON, type PackageDefinition } from '@grpc/proto-loader';
import type { INamespace } from 'protobufjs';
import descriptor from './tony.json' with { type: 'json' };
import type { TonyMessages, TonyServices } from './tony-messages.ts';

/*
 * Clients and servers of the services in tony.proto, with the types that are generated from it. The gRPC library itself does not check
 * types. Only this file converts its types, so all other files need no casts.
 */

type ServiceName = keyof TonyServices;
type Methods<Service extends ServiceName> = TonyServices[Service];

export type Handlers<Service extends ServiceName> = {
  readonly [Name in keyof Methods<Service>]: Handler<Methods<Service>[Name]>;
};

type Handler<Method> =
  Method extends Types<infer Request, infer Response, infer Streams>
    ? Streams extends true
      ? handleBidiStreamingCall<TonyMessages[Request], TonyMessages[Response]>
      : handleUnaryCall<TonyMessages[Request], TonyMessages[Response]>
    : never;

type Calls<Service extends ServiceName> = {
  readonly [Name in keyof Methods<Service>]: Call<Methods<Service>[Name]>;
};

type Call<Method> =
  Method extends Types<infer Request, infer Response, infer Streams>
    ? Streams extends true
      ? (metadata?: Metadata) => ClientStream<Request, Response>
      : (
          request: TonyMessages[Request],
          metadata: Metadata,
          options: CallOptions,
          answered: requestCallback<TonyMessages[Response]>,
        ) => ClientUnaryCall
    : never;

interface Types<Request extends keyof TonyMessages, Response extends keyof TonyMessages, Streams extends boolean> {
  readonly request: Request;
  readonly response: Response;
  readonly streams: Streams;
}

/** The client's end of a stream of requests and responses. */
export type ClientStream<Request extends keyof TonyMessages, Response extends keyof TonyMessages> = ClientDuplexStream<
  TonyMessages[Request],
  TonyMessages[Response]
>;

/** The server's end of a stream of requests and responses. */
export type ServerStream<Request extends keyof TonyMessages, Response extends keyof TonyMessages> = ServerDuplexStream<
  TonyMessages[Request],
  TonyMessages[Response]
>;

export type ServiceClient<Service extends ServiceName> = Client & Calls<Service>;

export function addService<Service extends ServiceName>(server: Server, service: Service, handlers: Handlers<Service>): void {
  server.addService(definitionOf(service), handlers as unknown as UntypedServiceImplementation);
}

export function clientConstructor<Service extends ServiceName>(
  service: Service,
): new (
  address: string,
  credentials: ChannelCredentials,
  options: ChannelOptions,
) => ServiceClient<Service> {
  return makeClientConstructor(definitionOf(service), service) as unknown as ReturnType<typeof clientConstructor<Service>>;
}

/** Calls `receive` with each message. The gRPC streams' own method `on` does not check the type of the message. */
export function onMessage<Message>(stream: Readable & { read(size?: number): Message }, receive: (message: Message) => void): void {
  stream.on('data', receive);
}

function definitionOf(service: ServiceName): ServiceDefinition {
  return tonyDefinitions()[`tony.${service}`] as ServiceDefinition;
}

/** Loads the definitions of tony.proto. The generated types describe messages that are decoded with these options. */
export function tonyDefinitions(): PackageDefinition {
  return fromJSON(descriptor as INamespace, { longs: Number, defaults: true, oneofs: true, enums: String });
}
