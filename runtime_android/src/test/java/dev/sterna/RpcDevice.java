package dev.sterna;

import java.io.File;
import java.io.IOException;
import java.util.concurrent.CountDownLatch;

/**
 * As a program: java -cp ... dev.sterna.RpcDevice FOLDER [SLOW]; prints the address that it listens on. The token is
 * STERNA_RPC_TOKEN's; SLOW: milliseconds that a frame may stand still.
 */
final class RpcDevice {
  private RpcDevice() {}

  public static void main(String[] arguments) throws IOException, InterruptedException {
    try (RpcServer server = new RpcServer(new File(arguments[0])).token(System.getenv("STERNA_RPC_TOKEN"))) {
      if (arguments.length > 1) server.slow = Integer.parseInt(arguments[1]);
      server.start(null, 0);
      System.out.println("rpc://127.0.0.1:" + server.port());
      new CountDownLatch(1).await();
    }
  }
}
